// The backward pass as the verbs use it.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "core/gradients.hpp"
#include "tools/tessera/call.hpp"

namespace tessera::tool {

inline constexpr core::Gradient kEveryGradient[] = {core::Gradient::kQ, core::Gradient::kK,
                                                    core::Gradient::kV, core::Gradient::kBias,
                                                    core::Gradient::kSink};

// What arrives from above. d_lse may be absent.
struct Upstream {
  Array d_out, d_lse;
};

// N(0, 1): d_out of the type of q, d_lse float32.
Upstream random_upstream(const Inputs& inputs, std::uint64_t seed, bool with_lse);

// Where gradients go; d_bias and d_sink are there if the call has a bias and a sink.
struct Gradients {
  std::array<Array, std::size(kEveryGradient)> arrays;

  Array& operator[](core::Gradient g) { return arrays[std::size_t(g)]; }
  const Array& operator[](core::Gradient g) const { return arrays[std::size_t(g)]; }
};

// Dense and of the types that the inputs have, or all float64.
Gradients make_gradients(const Inputs& inputs, bool wide = false);

// The descriptor of the backward pass. It points at its arguments; forward.out and forward.lse are
// those that the call wrote.
tessera_attention_backward_desc describe(const Upstream& upstream, const Gradients& to,
                                         const tessera_attention_desc& forward);

void differentiate(const Context& context, const tessera_attention_backward_desc& desc);

// The JSON text of tessera_backward_plan_describe.
std::string plan_json(const Context& context, const tessera_attention_backward_desc& desc);

}  // namespace tessera::tool
