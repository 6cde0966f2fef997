// How far a result may be from the definition: the one place that says so. docs/numerics.md derives
// the numbers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/gradients.hpp"
#include "core/tensor.hpp"

namespace tessera::core {

struct BoundRow {
  DType dtype;
  double forward, gradients;  // ||x - ref|| / ||ref||, under the conditions below
  int digits, lowest;         // of the significand; 2^(lowest - 1) is the smallest normal number
};
inline constexpr BoundRow kBounds[] = {
    {DType::kFloat32, 1e-6, 3e-6, 24, -125},
    {DType::kFloat16, 4e-4, 8e-4, 11, -13},
    {DType::kBfloat16, 3e-3, 6e-3, 8, -125},
    {DType::kFloat64, 1e-14, 3e-14, 53, -1021},  // the reference against other definitions
};
// The conditions: N(0, 1) inputs, the default scale (scores up to 8) and at most 16,384 keys.
inline constexpr std::int64_t kBoundKeys = 16384;
inline constexpr double kBoundScore = 8;

// How large the scores of a call are.
struct ScoreSize {
  double largest;  // |score| of a visible pair, as the reference returns it
  double product;  // largest_product(): scale ||q|| ||k||
};

// S of the bound. A score that is small because its terms cancel has the error of its terms. For
// N(0, 1) inputs at the default scale their part stays below kBoundScore up to D = 256, so that
// within the conditions it changes nothing.
inline double effective_score(const ScoreSize& size) {
  return std::max(size.largest, size.product / 3);
}

// How far the float32 part of an error may grow. A score of size S has an absolute error of S ulps,
// which is a relative error of its weight; errors of sums grow like the root of their length.
inline double growth(std::int64_t keys, double score) {
  return std::max(1., score / kBoundScore) *
         std::sqrt(std::max(1., double(keys) / double(kBoundKeys)));
}

inline const BoundRow& bound_row(DType dtype) {
  const BoundRow* row = std::find_if(std::begin(kBounds), std::end(kBounds),
                                     [dtype](const BoundRow& r) { return r.dtype == dtype; });
  if (row == std::end(kBounds)) fail(Status::kInternal, "there is no bound for a type of integers");
  return *row;
}

// The norm of the finite elements.
inline double finite_norm(std::span<const double> x) {
  double squares = 0;
  for (const double y : x)
    if (std::isfinite(y)) squares += y * y;
  return std::sqrt(squares);
}

// The type in which sums are formed.
inline DType sums_of(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// The largest allowed ||x - ref|| / ||ref||. What rounding to 16 bits costs does not grow with the
// scores.
inline double bound(DType dtype, std::int64_t keys, const ScoreSize& size) {
  return bound_row(dtype).forward +
         bound_row(sums_of(dtype)).forward * (growth(keys, effective_score(size)) - 1);
}

// The same of out, whose elements may each have lost `lost` besides (underflow.hpp); not where all
// of them are 0.
inline double out_bound(double relative, double lost, std::span<const double> ref) {
  const double size = finite_norm(ref);
  return size == 0 ? relative : relative + lost * std::sqrt(double(ref.size())) / size;
}

// The largest allowed |lse - ref| / max(1, |ref|), for inputs of any dtype: lse is float32. Scores
// that are large and of one sign make lse large itself, so the allowance stops growing with them.
// It is asked of each element, not of a norm: the product counts in full.
inline double lse_bound(std::int64_t keys, const ScoreSize& size) {
  return 1e-6 * growth(keys, std::max(std::min(size.largest, 4 * kBoundScore), size.product));
}

// ||x|| of the row [b, i, h].
inline double norm(const Tensor& x, std::int64_t b, std::int64_t i, std::int64_t h) {
  double sum = 0;
  for (std::int64_t d = 0; d < x.shape[3]; ++d) sum += x.load(b, i, h, d) * x.load(b, i, h, d);
  return std::sqrt(sum);
}

// Which rows of k belong to a batch row of q: those of the same number, or (pages, a cache) any.
enum class Rows { kPaired, kAny };

// The largest finite scale ||q|| ||k||, an upper estimate of any score, over the rows of each head.
// A scale of NaN is 1 / sqrt(D).
inline double largest_product(const Tensor& q, const Tensor& k, double scale,
                              Rows rows = Rows::kPaired) {
  const auto longest = [](const Tensor& x, std::int64_t b, std::int64_t h) {
    double most = 0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i)
      if (const double length = norm(x, b, i, h); std::isfinite(length))
        most = std::max(most, length);
    return most;
  };
  double largest = 0;
  for (std::int64_t b = 0; b < q.shape[0]; ++b)
    for (std::int64_t h = 0; h < q.shape[2]; ++h) {
      const std::int64_t row = std::min(b, k.shape[0] - 1), kv_head = h * k.shape[2] / q.shape[2];
      const std::int64_t first = rows == Rows::kAny ? 0 : row;
      const std::int64_t last = rows == Rows::kAny ? k.shape[0] - 1 : row;
      double key = 0;
      for (std::int64_t n = first; n <= last; ++n) key = std::max(key, longest(k, n, kv_head));
      largest = std::max(largest, longest(q, b, h) * key);
    }
  return (std::isnan(scale) ? 1 / std::sqrt(double(q.shape[3])) : scale) * largest;
}

// The element of type `dtype` that is nearest to x.
inline double rounded(DType dtype, double x) {
  double element = 0;  // the largest of them
  store_element(dtype, &element, x);
  return load_element(dtype, &element);
}

// Half a unit in the last place of x: what rounding alone may cost.
inline double half_unit(DType dtype, double x) {
  const BoundRow& row = bound_row(dtype);
  int exponent = row.lowest;  // x = f 2^exponent, 1/2 <= f < 1
  if (x != 0) std::frexp(x, &exponent);
  return std::ldexp(0.5, std::max(exponent, row.lowest) - row.digits);
}

// A NaN agrees with a NaN, an infinity with itself, finite numbers with finite numbers.
inline bool same_kind(double x, double ref) {
  if (std::isnan(x) || std::isnan(ref)) return std::isnan(x) && std::isnan(ref);
  return std::isinf(x) || std::isinf(ref) ? x == ref : true;
}

struct Deviation {
  double relative = 0;    // ||x - ref|| / ||ref|| over finite elements
  double largest = 0;     // of |x - ref|
  std::size_t worst = 0;  // where it is
};

// Both errors are infinite where an element is of another kind, and the relative one where ref is
// all zeros and x is not. It is relative to `size` if that is larger than ||ref||.
inline Deviation deviation(std::span<const double> x, std::span<const double> ref,
                           double size = 0) {
  Deviation result;
  double squares = 0, norm = 0;
  for (std::size_t n = 0; n < ref.size(); ++n) {
    const bool finite = std::isfinite(x[n]) && std::isfinite(ref[n]);
    const double e = finite                    ? std::abs(x[n] - ref[n])
                     : same_kind(x[n], ref[n]) ? 0
                                               : std::numeric_limits<double>::infinity();
    if (e > result.largest) result.worst = n;
    result.largest = std::max(result.largest, e);
    squares += e * e;
    if (std::isfinite(ref[n])) norm += ref[n] * ref[n];
  }
  if (squares > 0) result.relative = std::sqrt(squares) / std::max(std::sqrt(norm), size);
  return result;
}

// What the error of a gradient is judged by.
struct GradientMeasure {
  DType inputs, out, gradient;  // the types of q, of out, and of the gradient itself
  std::int64_t summed;          // longest_sum()
  ScoreSize score;
  TermNorms terms;
  double lost = 0;  // lost_of_gradient() of underflow.hpp
};

// The sizes of a call.
struct PairSizes {
  std::int64_t batch, heads, kv_heads, queries, keys;
};

// The terms that one of the `elements` elements of a gradient is summed from.
constexpr std::int64_t longest_sum(Gradient of, const PairSizes& s, std::int64_t elements) {
  switch (of) {
    case Gradient::kQ: return s.keys;
    case Gradient::kK:
    case Gradient::kV: return s.queries * (s.kv_heads == 0 ? 0 : s.heads / s.kv_heads);
    case Gradient::kSink: return s.batch * s.queries;
    case Gradient::kBias: break;
  }
  const std::int64_t pairs = s.batch * s.heads * s.queries * s.keys;
  return elements == 0 ? 0 : pairs / elements;
}

// The size that the error of a gradient is relative to: its norm, or half of what its norm would be
// if its terms did not cancel. For N(0, 1) inputs the terms are about as large as the gradient.
inline double gradient_size(const GradientMeasure& m, std::span<const double> ref) {
  return std::max(finite_norm(ref), 0.5 * m.terms.all);
}

// The rounding of fewer elements is no average.
inline constexpr std::size_t kFewElements = 16;

// The largest allowed ||x - ref|| / size. Beside the sums there are up to three roundings to 16
// bits: of P and dS, of the result, and of out, which the pass reads: <d_out, out> has its error in
// every term of a row.
inline double gradient_bound(const GradientMeasure& m, std::span<const double> ref) {
  const double size = gradient_size(m, ref);
  if (size == 0) return 0;
  const DType sums = sums_of(m.inputs);
  const double sum = bound_row(sums).gradients * growth(m.summed, effective_score(m.score));
  // They do not depend on each other: their squares add. P and dS may be rounded to the type of the
  // inputs, as their fastest products want it, and a few of them may have most of the weight.
  const double weights =
      m.inputs == sums ? 0 : half_unit(m.inputs, 1) * std::max(1., m.terms.all / size);
  const bool few = ref.size() < kFewElements;  // and then they may all go one way
  const double one = few ? half_unit(m.gradient, 1) : bound_row(m.gradient).forward;
  const double result = m.gradient == sums ? 0 : one * finite_norm(ref) / size;
  const double read = m.terms.out / size;  // what <d_out, out> takes over of the error of out
  const double out = m.out == sums ? 0 : bound_row(m.out).gradients * read;
  // N(0, 1) inputs have less than half of it; beyond that the error of out in float32 counts too.
  return sum + bound_row(sums).forward * std::max(0., read - 0.5) +
         (few ? weights + result + out : std::hypot(weights, result, out)) +
         (half_unit(m.gradient, 0) * std::sqrt(double(ref.size())) + m.lost) / size;
}

inline double relative_error(std::span<const double> x, std::span<const double> ref,
                             double size = 0) {
  return deviation(x, ref, size).relative;
}

// The verdict. What is allowed is `bound`, or rounding alone: the norm of few elements has no
// average to lean on, and a single one may miss by half a unit in its last place. A reference that
// the type cannot hold counts as what it rounds to. `size` is that of deviation().
inline bool within(DType dtype, std::span<const double> x, std::span<const double> ref,
                   double bound, double size = 0) {
  std::vector<double> want(ref.begin(), ref.end());
  bool only_rounded = true;
  for (std::size_t n = 0; n < want.size(); ++n) {
    if (std::isinf(rounded(dtype, want[n]))) want[n] = rounded(dtype, want[n]);
    const bool near = std::abs(x[n] - want[n]) <= half_unit(dtype, want[n]);
    only_rounded = only_rounded && (std::isfinite(want[n]) ? near : same_kind(x[n], want[n]));
  }
  return only_rounded || relative_error(x, want, size) <= bound;
}

}  // namespace tessera::core
