// What is lost below the smallest normal number: weights in float32, and what out rounds to. These
// errors are absolute, where the bounds of tolerance.hpp are relative. docs/numerics.md derives
// them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/dtype.hpp"
#include "core/gradients.hpp"
#include "core/tensor.hpp"
#include "core/tolerance.hpp"

namespace tessera::core {

// The smallest normal number of a type.
inline double smallest_normal(DType dtype) { return std::ldexp(1, bound_row(dtype).lowest - 1); }

// How large the operands of a call are: the norms of their longest rows, of finite elements.
struct OperandSizes {
  double scale = 1, dropout = 1;  // a pair that dropout keeps counts 1 / (1 - p) times
  double q = 0, k = 0, v = 0;     // v: or the values of the state that a call starts from
  double d_out = 0, d_lse = 0;
};

// The norm of the longest row of x, of its finite elements; 0 if x is absent.
inline double longest_row(const Tensor& x) {
  double most = 0;
  if (!x.present()) return most;
  for (std::int64_t b = 0; b < x.shape[0]; ++b)
    for (std::int64_t i = 0; i < x.shape[1]; ++i)
      for (std::int64_t h = 0; h < x.shape[2]; ++h) {
        double squares = 0;
        for (std::int64_t d = 0; d < x.shape[3]; ++d)
          if (const double y = x.load(b, i, h, d); std::isfinite(y)) squares += y * y;
        most = std::max(most, squares);
      }
  return std::sqrt(most);
}

// Of each element of out: every weight below the smallest normal number counts as 0, and so may
// every sum of 16-bit products. `inputs` is the type of q; the state counts as a key.
inline double lost_of_out(DType inputs, std::int64_t keys, const OperandSizes& s) {
  return smallest_normal(sums_of(inputs)) * double(keys + 1) * (s.dropout * s.v + 1);
}

// The norm over rows of what <d_out, out> loses to the rounding of those elements of out, by the
// definition, that are smaller than the normal numbers of its type. Those of a row may all go one
// way: numbers that round to 0 lose their sign with them.
inline double lost_of_reads(DType dtype, const Tensor& out, const Tensor& d_out) {
  const double normal = smallest_normal(dtype), most = half_unit(dtype, 0);
  double squares = 0;
  for (std::int64_t b = 0; b < out.shape[0]; ++b)
    for (std::int64_t i = 0; i < out.shape[1]; ++i)
      for (std::int64_t h = 0; h < out.shape[2]; ++h) {
        double row = 0;
        for (std::int64_t d = 0; d < out.shape[3]; ++d) {
          const double size = std::abs(out.load(b, i, h, d));
          if (size == 0 || !(size < normal)) continue;
          const double error = std::min(size, most) * std::abs(d_out.load(b, i, h, d));
          if (std::isfinite(error)) row += error;
        }
        squares += row * row;
      }
  return std::sqrt(squares);
}

// The call whose gradients are judged.
struct LostTerms {
  DType inputs;
  std::int64_t keys;
  OperandSizes sizes;
  double reads;  // lost_of_reads()
};

// The norm of what a gradient of `elements` elements, each a sum of `summed` terms, may have lost.
inline double lost_of_gradient(Gradient of, const LostTerms& t, std::int64_t summed,
                               std::int64_t elements) {
  const OperandSizes& s = t.sizes;
  const double least = smallest_normal(sums_of(t.inputs)), terms = double(summed);
  const double pair = least * (2 * s.dropout * s.d_out * s.v + s.d_lse + 1);  // of dS
  const double row = lost_of_out(t.inputs, t.keys, s) * s.d_out;              // of <d_out, out>
  const double rows = std::sqrt(terms) * row;  // independent of each other
  const double all = std::sqrt(double(elements));
  switch (of) {
    case Gradient::kQ: return s.scale * (s.k + 1) * (all * (terms * pair + row) + t.reads);
    case Gradient::kK: return s.scale * (s.q + 1) * (all * (terms * pair + rows) + t.reads);
    case Gradient::kV: return all * terms * least * s.dropout * (s.d_out + 1);
    case Gradient::kBias: return all * (terms * pair + rows) + t.reads;
    case Gradient::kSink: break;
  }
  return all * rows + t.reads;  // the weight of the sink is formed in double
}

}  // namespace tessera::core
