// Standard attention in the precision of its inputs: three loops and the whole matrix. Its error is
// the yardstick for ours; its code shares nothing with the library.
#pragma once
#include "support/inputs.hpp"

namespace tessera::test {

// Scores, weights and output are rounded to the dtype of q, as three separate operators would leave
// them; sums are in float32. Knows visibility, GQA, scale, soft cap, bias, ALiBi and the sink.
Array standard_attention(const Inputs& in);

// The gradients of q, k and v in the same way: P, dP and dS are rounded, as separate operators
// would leave them. Knows no soft cap.
struct StandardGradients {
  Array dq, dk, dv;
};
StandardGradients standard_gradients(const Inputs& in, const Array& d_out);

}  // namespace tessera::test
