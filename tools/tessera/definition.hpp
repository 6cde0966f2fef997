// The definition in double precision, of the same (already rounded) inputs.
#pragma once
#include "tools/tessera/call.hpp"

namespace tessera::tool {

struct Definition {
  Results results;       // float64
  double score_max = 0;  // the largest |score| over visible pairs
};

// Head by head, on the threads of the options, with a progress line on a terminal.
Definition define(const Context& context, const Inputs& inputs, const AttentionOptions& options);

}  // namespace tessera::tool
