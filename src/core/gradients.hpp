// What the backward pass of one problem reads besides it, and what it writes.
#pragma once
#include <array>
#include <iterator>
#include <string_view>

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

// How large the terms of a gradient are: the norm that it would have were their signs random. `out`
// is the part of those that read out, which is rounded to its type.
struct TermNorms {
  double all = 0, out = 0;
};
enum class Gradient { kQ, kK, kV, kBias, kSink };
inline constexpr std::string_view kGradientNames[] = {"dq", "dk", "dv", "d_bias", "d_sink"};
using GradientTerms = std::array<TermNorms, std::size(kGradientNames)>;

}  // namespace tessera::core
