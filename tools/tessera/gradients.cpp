#include "tools/tessera/gradients.hpp"

#include "core/random.hpp"

namespace tessera::tool {
namespace {

// The tensor numbers of generated data, behind those of inputs.cpp.
enum Stream : std::uint32_t { kDOut = 11, kDLse = 12 };

Array normal(Stream stream, std::uint64_t seed, core::DType dtype,
             std::span<const std::int64_t> shape) {
  Array array = make_array(dtype, shape);
  core::fill_normal(array.tensor, seed, stream, 1);
  return array;
}

tessera_tensor tensor_of(const Array& array) {
  return array.present() ? to_c(array.tensor) : tessera_tensor_default();
}

}  // namespace

Upstream random_upstream(const Inputs& inputs, std::uint64_t seed, bool with_lse) {
  const Shape s = shape_of(inputs);
  const std::int64_t rows = s.packed ? 1 : s.batch;
  const std::array d_out{rows, s.queries, s.heads, s.value_dim};
  const std::array d_lse{rows, s.heads, s.queries};
  Upstream upstream{normal(kDOut, seed, inputs.q.tensor.dtype, d_out), {}};
  if (with_lse) upstream.d_lse = normal(kDLse, seed, core::DType::kFloat32, d_lse);
  return upstream;
}

Gradients make_gradients(const Inputs& in, bool wide) {
  const Array* const operands[] = {&in.q, &in.k, &in.v, &in.bias, &in.sink};
  Gradients gradients;
  for (const core::Gradient g : kEveryGradient) {
    const Array& of = *operands[std::size_t(g)];
    if (of.present())
      gradients[g] = make_array(wide ? core::DType::kFloat64 : of.tensor.dtype, of.shape());
  }
  return gradients;
}

tessera_attention_backward_desc describe(const Upstream& upstream, const Gradients& to,
                                         const tessera_attention_desc& forward) {
  tessera_attention_backward_desc desc = tessera_attention_backward_desc_default();
  desc.forward = &forward;
  desc.d_out = tensor_of(upstream.d_out);
  desc.d_lse = tensor_of(upstream.d_lse);
  desc.dq = tensor_of(to[core::Gradient::kQ]);
  desc.dk = tensor_of(to[core::Gradient::kK]);
  desc.dv = tensor_of(to[core::Gradient::kV]);
  desc.d_bias = tensor_of(to[core::Gradient::kBias]);
  desc.d_sink = tensor_of(to[core::Gradient::kSink]);
  return desc;
}

void differentiate(const Context& context, const tessera_attention_backward_desc& desc) {
  tessera_error error = tessera_error_default();
  check(tessera_attention_backward(context.get(), &desc, &error), error);
}

std::string plan_json(const Context& context, const tessera_attention_backward_desc& desc) {
  return text_of([&](char* buffer, std::uint64_t capacity, std::uint64_t* needed,
                     tessera_error* error) {
    return tessera_backward_plan_describe(context.get(), &desc, buffer, capacity, needed, error);
  });
}

}  // namespace tessera::tool
