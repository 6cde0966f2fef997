// The definition in double precision, of the same (already rounded) inputs.
#pragma once
#include "tools/tessera/call.hpp"
#include "tools/tessera/gradients.hpp"

namespace tessera::tool {

struct Definition {
  Results results;       // float64
  double score_max = 0;  // the largest |score| over visible pairs
};

// Head by head, on the threads of the options, with a progress line on a terminal.
Definition define(const Context& context, const Inputs& inputs, const AttentionOptions& options);

// The same of the gradients, of the group of heads of each head of k and v.
struct GradientDefinition {
  Gradients gradients;  // float64
  core::GradientTerms terms{};
};
GradientDefinition define_gradients(const Context& context, const Inputs& inputs,
                                    const AttentionOptions& options, const Upstream& from_above,
                                    const Definition& forward);

}  // namespace tessera::tool
