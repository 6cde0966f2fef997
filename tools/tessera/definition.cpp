#include "tools/tessera/definition.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tools/tessera/definition_parts.hpp"

namespace tessera::tool {
namespace {

Inputs in_double(const Inputs& inputs) {
  Inputs wide = inputs;
  for (Array* array : {&wide.q, &wide.k, &wide.v})
    *array = converted(*array, core::DType::kFloat64);
  return wide;
}

// The call in double, with the results of `definition`.
tessera_attention_desc reference_call(const Inputs& wide, const AttentionOptions& options,
                                      const Definition& definition) {
  tessera_attention_desc desc = describe(wide, options);
  desc.backend = TESSERA_BACKEND_REFERENCE;
  desc.out = to_c(definition.results.out.tensor);
  desc.lse = to_c(definition.results.lse.tensor);
  return desc;
}

// Adds a part of a gradient to where it belongs in the whole, from `first` on.
void add(const Array& part, const core::Index4& first, const Array& whole) {
  for_each_index(part.tensor.shape, [&](const core::Index4& i) {
    core::Index4 at{};
    for (std::size_t d = 0; d < 4; ++d) at[d] = whole.tensor.shape[d] == 1 ? 0 : first[d] + i[d];
    whole.tensor.store(at, load(whole.tensor, at) + load(part.tensor, i));
  });
}

Array like(const tessera_tensor& t) {
  if (t.data == nullptr) return {};
  return make_array(core::DType::kFloat64, {t.shape, 4});
}

// The gradients of the heads that share one head of k and v: those of q, k and v are of these
// heads alone, d_bias and d_sink may be shared with others.
class Group {
 public:
  Group(const tessera_attention_backward_desc& whole, const Part& part)
      : part_(part), forward_(narrowed(*whole.forward, part)), desc_(whole) {
    const std::int64_t kv_head =
        part.head / (whole.forward->q.shape[2] / whole.forward->k.shape[2]);
    for (tessera_tensor* t : {&desc_.d_out, &desc_.d_lse, &desc_.dq, &desc_.dk, &desc_.dv})
      narrow(*t, 0, part.batch);
    for (tessera_tensor* t : {&desc_.d_out, &desc_.dq}) narrow(*t, 2, part.head, part.heads);
    for (tessera_tensor* t : {&desc_.dk, &desc_.dv}) narrow(*t, 2, kv_head);
    narrow(desc_.d_lse, 1, part.head, part.heads);
    bias_ = like(forward_.bias);
    sink_ = like(forward_.sink);
    desc_.forward = &forward_;
    if (bias_.present()) desc_.d_bias = to_c(bias_.tensor);
    if (sink_.present()) desc_.d_sink = to_c(sink_.tensor);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void compute(const Context& context) {
    desc_.term_norms = &terms_[0].all;
    differentiate(context, desc_);
  }
  // One part at a time.
  void add_to(GradientDefinition& definition) const {
    const Gradients& g = definition.gradients;
    if (bias_.present()) add(bias_, {part_.batch, part_.head, 0, 0}, g[core::Gradient::kBias]);
    if (sink_.present()) add(sink_, {part_.head, 0, 0, 0}, g[core::Gradient::kSink]);
    for (std::size_t n = 0; n < terms_.size(); ++n) {
      core::TermNorms& norms = definition.terms[n];
      norms = {std::hypot(norms.all, terms_[n].all), std::hypot(norms.out, terms_[n].out)};
    }
  }

 private:
  Part part_;
  tessera_attention_desc forward_;
  tessera_attention_backward_desc desc_;
  Array bias_, sink_;
  core::GradientTerms terms_{};
};

}  // namespace

Definition define(const Context& context, const Inputs& inputs, const AttentionOptions& options) {
  const Inputs wide = in_double(inputs);
  Definition definition{make_results(shape_of(inputs), core::DType::kFloat64)};
  const tessera_attention_desc whole = reference_call(wide, options, definition);
  plan_json(context, whole);  // all checks, on the whole call
  const bool cut = can_be_cut(whole);
  const std::int64_t heads = whole.q.shape[2];
  std::mutex mutex;
  Parts parts(cut ? whole.q.shape[0] * heads : 1, [&](std::int64_t n) {
    tessera_attention_desc desc = cut ? narrowed(whole, {n / heads, n % heads, 1}) : whole;
    double largest = 0;
    desc.score_max = &largest;
    tessera_error error = tessera_error_default();
    check(tessera_attention(context.get(), &desc, &error), error);
    const std::lock_guard lock(mutex);
    definition.score_max = std::max(definition.score_max, largest);
  });
  parts.run("definition in double, head", threads_for_definition(options.threads));
  return definition;
}

GradientDefinition define_gradients(const Context& context, const Inputs& inputs,
                                    const AttentionOptions& options, const Upstream& from_above,
                                    const Definition& forward) {
  const Inputs wide = in_double(inputs);
  const Upstream upstream{converted(from_above.d_out, core::DType::kFloat64), from_above.d_lse};
  GradientDefinition definition{make_gradients(wide, true), {}};
  const tessera_attention_desc call = reference_call(wide, options, forward);
  const tessera_attention_backward_desc whole = describe(upstream, definition.gradients, call);
  plan_json(context, whole);
  if (!can_be_cut(call)) {
    tessera_attention_backward_desc desc = whole;
    desc.term_norms = &definition.terms[0].all;
    differentiate(context, desc);
    return definition;
  }
  const std::int64_t kv_heads = call.k.shape[2];
  const std::int64_t group = kv_heads == 0 ? 0 : call.q.shape[2] / kv_heads;
  std::mutex mutex;
  Parts parts(call.q.shape[0] * kv_heads, [&](std::int64_t n) {
    Group heads(whole, {n / kv_heads, n % kv_heads * group, group});
    heads.compute(context);
    const std::lock_guard lock(mutex);
    heads.add_to(definition);
  });
  parts.run("gradients in double, head", threads_for_definition(options.threads));
  return definition;
}

}  // namespace tessera::tool
