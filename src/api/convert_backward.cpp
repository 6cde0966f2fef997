// The description of a backward pass: the call that it differentiates, what arrives from above, and
// the gradients that are wanted.
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "api/convert_parts.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::DType;
using core::Gradients;
using core::Index4;
using core::Problem;
using core::Tensor;
using BackwardDesc = tessera_attention_backward_desc;
using G = Gradients;
using P = Problem;
using A = tessera_attention_desc;
using B = BackwardDesc;

// One tensor of the backward pass, and the tensor of the call whose shape it has.
struct GradientField {
  std::string_view name, of;
  tessera_tensor BackwardDesc::* given;
  Tensor Gradients::* tensor;
  tessera_tensor tessera_attention_desc::* of_given;
  Tensor Problem::* of_tensor;
  Use use = Use::kOutput;
};

constexpr GradientField kGradientFields[] = {
    {"d_out", "out", &B::d_out, &G::d_out, &A::out, &P::out, Use::kInput},
    {"d_lse", "lse", &B::d_lse, &G::d_lse, &A::lse, &P::lse, Use::kInput},
    {"dq", "q", &B::dq, &G::dq, &A::q, &P::q},
    {"dk", "k", &B::dk, &G::dk, &A::k, &P::k},
    {"dv", "v", &B::dv, &G::dv, &A::v, &P::v},
    {"d_bias", "bias", &B::d_bias, &G::d_bias, &A::bias, &P::bias},
    {"d_sink", "sink", &B::d_sink, &G::d_sink, &A::sink, &P::sink},
};

bool always_there(const GradientField& field) { return field.given == &B::d_out; }

// Those of an option of the call; the other tensors are always there.
bool of_an_option(const GradientField& field) {
  return field.given == &B::d_bias || field.given == &B::d_sink;
}

// float32, the type of the tensor itself (for d_out that of q, for out may be wider), and float64
// where q is float64.
void check_dtype(const GradientField& field, DType dtype, const Problem& p) {
  const DType own = always_there(field) ? p.q.dtype : (p.*field.of_tensor).dtype;
  const bool wide = p.q.dtype == DType::kFloat64;
  if (dtype == DType::kFloat32 || dtype == own || (wide && dtype == DType::kFloat64)) return;
  std::string words = "float32";
  if (own != DType::kFloat32) words.append(" or ").append(core::name_of(own));
  if (wide && own != DType::kFloat64) words.append(" or float64");
  refuse(Sentence::kDtype, {field.name, core::name_of(dtype), std::string_view(words)});
}

// A bias that lies expanded may have its gradient in full, or summed as if it had size 1.
bool same_shape(const GradientField& field, const Tensor& t, const Tensor& of) {
  if (field.given != &B::d_bias) return t.shape == of.shape;
  for (std::size_t d = 0; d < 4; ++d)
    if (t.shape[d] != of.shape[d] && (t.shape[d] != 1 || of.stride[d] != 0)) return false;
  return true;
}

Tensor convert_gradient(const GradientField& field, const tessera_tensor& given_tensor,
                        const Problem& p) {
  const bool bias = field.given == &B::d_bias;
  const Tensor t = convert_tensor(
      {field.name, TypeSet::kFloats, bias ? Rule::kBroadcast : Rule::kLetters}, given_tensor);
  const Tensor& of = p.*field.of_tensor;
  check_dtype(field, t.dtype, p);
  if (!same_shape(field, t, of))
    refuse(bias ? Sentence::kBiasGradientShape : Sentence::kGradientShape,
           {field.name, Shape{t.shape}, field.of, Shape{of.shape}});
  return t;
}

void convert_gradients(const BackwardDesc& desc, const tessera_attention_desc& forward,
                       Purpose purpose, BackwardCall& call) {
  bool wanted = false;
  for (const GradientField& field : kGradientFields) {
    const tessera_tensor& t = desc.*field.given;
    if (always_there(field)) check_data(field.name, t, purpose);
    if (!given(t)) continue;
    require(!of_an_option(field) || given(forward.*field.of_given), Sentence::kNeeds, field.name,
            field.of);
    call.gradients.*field.tensor = convert_gradient(field, t, call.problem);
    wanted = wanted || field.use == Use::kOutput;
  }
  require(wanted, Sentence::kNoGradient);
}

// Of what this version computes no gradients.
void check_differentiable(const Problem& p) {
  require(!p.paged(), Sentence::kPagedGradient);
  require(!p.state_out.present(), Sentence::kStateGradient);
}

void check_gradients_apart(const BackwardDesc& desc, const BackwardCall& call) {
  std::array<Named, kMostFields + std::size(kGradientFields)> read;
  std::array<Named, 2 + std::size(kGradientFields)> written;
  std::size_t inputs = 0, outputs = 0;
  for (const Field& field : fields()) read[inputs++] = {field.name, &(call.problem.*field.tensor)};
  for (const GradientField& field : kGradientFields) {
    const Tensor& t = call.gradients.*field.tensor;
    if (field.use == Use::kInput) {
      read[inputs++] = {field.name, &t};
    } else if (given(desc.*field.given)) {
      check_writable(field.name, desc.*field.given, t);
      written[outputs++] = {field.name, &t};
    }
  }
  const Tensor workspace = bytes_at(call.workspace, call.workspace_bytes);
  const Tensor term_norms = bytes_at(call.term_norms, sizeof(core::GradientTerms));
  written[outputs++] = {"workspace", &workspace};
  written[outputs++] = {"term_norms", &term_norms};
  check_apart(std::span(written).first(outputs), std::span(read).first(inputs));
}

}  // namespace

BackwardCall convert(const tessera_attention_backward_desc& desc,
                     const tessera_attention_desc& forward, Purpose purpose) {
  require((desc.flags & ~std::uint32_t{TESSERA_ACCUMULATE}) == 0, Sentence::kBackwardFlags,
          Hex{desc.flags});
  check_workspace(desc.workspace, desc.workspace_bytes);
  const Call read = convert_inputs(forward, purpose);
  require(!read.where.on_gpu(), Sentence::kHostOnly, std::string_view("q"));
  require(read.backend <= plan::Backend::kStandard, Sentence::kForwardOnly,
          std::int64_t(read.backend));
  check_data("lse", forward.lse, purpose);
  check_differentiable(read.problem);
  check_diagnostics("term_norms", desc.term_norms, forward.backend);
  BackwardCall call{read.problem,   {}, read.backend, desc.workspace, desc.workspace_bytes,
                    desc.term_norms};
  const Index4& rows = call.problem.out.shape;
  if (!given(forward.lse)) call.problem.lse.shape = {rows[0], rows[2], rows[1], 1};
  call.gradients.accumulate = (desc.flags & TESSERA_ACCUMULATE) != 0;
  convert_gradients(desc, forward, purpose, call);
  check_gradients_apart(desc, call);
  return call;
}

}  // namespace tessera::api
