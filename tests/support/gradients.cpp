#include "support/gradients.hpp"

#include <fmt/format.h>

#include <utility>

#include "support/compare.hpp"

namespace tessera::test {

namespace {

bool computes_gradients(const std::string& name) { return !name.starts_with("standard/"); }

bool is_wanted(const Pull& p, Gradient g) {
  const bool wanted[] = {p.dq, p.dk, p.dv, p.d_bias, p.d_sink};
  return wanted[std::size_t(g)];
}

const Array& operand(const Inputs& in, Gradient g) {
  const Array* const all[] = {&in.q, &in.k, &in.v, &in.bias, &in.sink};
  return *all[std::size_t(g)];
}

// The shape of d_bias: that of the bias, or 1 where it has stride 0.
Index4 bias_shape(const Inputs& in) {
  Index4 shape = in.bias.shape();
  for (std::size_t n = 0; n < 4; ++n)
    if (in.of.pull->summed_bias && in.bias.tensor().stride[n] == 0) shape[n] = 1;
  return shape;
}

Array make_gradient(const Inputs& in, Gradient g) {
  const Array& of = operand(in, g);
  const Pull& p = *in.of.pull;
  if (!of.present() || !is_wanted(p, g)) return {};
  const bool all_wide = in.of.dtype == DType::kFloat64;
  const DType dtype = all_wide ? DType::kFloat64 : p.wide ? DType::kFloat32 : of.dtype();
  if (g == Gradient::kBias) return {dtype, bias_shape(in)};
  return {dtype, of.shape(), g == Gradient::kSink ? Layout::kDense : p.layout};
}

// What the gradients may have lost below the normal numbers; `forward` is by the definition.
core::LostTerms lost_terms(const BackwardInputs& in, const Outputs& forward) {
  const core::Tensor d_out = in.from_above.d_out.tensor();
  core::OperandSizes sizes = operand_sizes(in.call);
  sizes.d_out = core::longest_row(d_out);
  sizes.d_lse = core::longest_row(in.from_above.d_lse.tensor());
  return {in.of().dtype, in.of().keys, sizes,
          core::lost_of_reads(in.of().out_dtype(), forward.out.tensor(), d_out)};
}

core::PairSizes sizes_of(const Case& c) {
  return {c.batch, c.heads, c.kv_heads, c.queries, c.keys};
}

}  // namespace

const std::vector<std::string>& backward_backend_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> some;
    for (const std::string& name : backend_names())
      if (computes_gradients(name)) some.push_back(name);
    return some;
  }();
  return names;
}

GradientArrays::GradientArrays(const BackwardInputs& in) {
  for (const Gradient g : kEveryGradient) arrays[std::size_t(g)] = make_gradient(in.call, g);
}

tessera_attention_backward_desc describe(const BackwardInputs& in, const GradientArrays& to,
                                         const tessera_attention_desc& forward) {
  tessera_attention_backward_desc d = tessera_attention_backward_desc_default();
  d.forward = &forward;
  d.flags = in.pull().accumulate ? std::uint32_t{TESSERA_ACCUMULATE} : 0;
  d.d_out = in.from_above.d_out.abi();
  d.d_lse = in.from_above.d_lse.abi();
  d.dq = to[Gradient::kQ].abi();
  d.dk = to[Gradient::kK].abi();
  d.dv = to[Gradient::kV].abi();
  d.d_bias = to[Gradient::kBias].abi();
  d.d_sink = to[Gradient::kSink].abi();
  return d;
}

GradientArrays differentiate(const Backend& on, const BackwardInputs& in, GradientArrays to) {
  const Outputs outputs = run(on, in.call);
  tessera_attention_desc forward = describe(in.call, outputs);
  forward.backend = number_of(on);
  tessera_attention_backward_desc desc = describe(in, to, forward);
  if (on.is_reference()) desc.term_norms = &to.terms[0].all;
  tessera_error error = tessera_error_default();
  to.status = tessera_attention_backward(on.context, &desc, &error);
  to.message = error.message;
  EXPECT_EQ(to.status, TESSERA_OK) << to.message << "\n  " << on.command(in.of());
  for (const Array& a : to.arrays)
    EXPECT_TRUE(!a.present() || a.surroundings_intact())
        << "wrote beside a gradient\n  " << on.command(in.of());
  return to;
}

GradientArrays differentiate(const Backend& on, const BackwardInputs& in) {
  return differentiate(on, in, GradientArrays(in));
}

GradientArrays define_gradients(const BackwardInputs& in) {
  BackwardInputs wide = in;
  wide.call = in.call.in(DType::kFloat64);
  wide.from_above.d_out = in.from_above.d_out.converted(DType::kFloat64);
  Pull& p = *wide.call.of.pull;
  p.dq = p.dk = p.dv = p.d_bias = p.d_sink = true;
  p.accumulate = false;
  p.layout = Layout::kDense;
  return differentiate(reference(), wide);
}

testing::AssertionResult agree(const GradientArrays& got, const GradientArrays& definition,
                               const BackwardInputs& in, const Backend& on, double slack) {
  const Outputs forward = define(in.call);
  const core::ScoreSize score = score_size(in.call, forward);
  const core::LostTerms lost = lost_terms(in, forward);
  for (const Gradient g : kEveryGradient) {
    if (!got[g].present()) continue;
    const std::int64_t summed = core::longest_sum(g, sizes_of(in.of()), got[g].count());
    const core::GradientMeasure measure{
        .inputs = in.of().dtype,
        .out = in.of().out_dtype(),
        .gradient = got[g].dtype(),
        .summed = summed,
        .score = score,
        .terms = definition.terms[std::size_t(g)],
        .lost = core::lost_of_gradient(g, lost, summed, got[g].count())};
    auto result = gradient_agrees(got[g], definition[g], measure,
                                  core::kGradientNames[std::size_t(g)], slack);
    if (!result) return result << "\n  " << on.command(in.of());
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult is_right(const GradientArrays& got, const BackwardInputs& in,
                                  const Backend& on) {
  return agree(got, define_gradients(in), in, on);
}

testing::AssertionResult same_bits(const GradientArrays& a, const GradientArrays& b) {
  for (const Gradient g : kEveryGradient) {
    if (!a[g].present() || !b[g].present()) continue;
    auto result = same_bits(a[g], b[g]);
    if (!result) return result << " of " << core::kGradientNames[std::size_t(g)];
  }
  return testing::AssertionSuccess();
}

}  // namespace tessera::test
