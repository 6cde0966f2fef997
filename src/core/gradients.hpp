// What the backward pass of one problem reads besides it, and what it writes.
#pragma once
#include "core/tensor.hpp"

namespace tessera::core {

// Absent tensors are not wanted (d_lse: zero).
struct Gradients {
  Tensor d_out;       // [B, Lq, H, Dv]
  Tensor d_lse;       // [B, H, Lq]
  Tensor dq, dk, dv;  // the shapes of q, k, v
  Tensor d_bias;      // the shape of the bias as given: sums over dimensions of size 1, and may
                      // have size 1, for such a sum, where the bias has stride 0
  Tensor d_sink;      // [H]
  bool accumulate = false;  // add to what the last five hold rather than write them

  friend bool operator==(const Gradients&, const Gradients&) = default;
};

}  // namespace tessera::core
