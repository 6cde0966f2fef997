// The rows of a head as the backward pass wants them: float32, padded to whole panels, and those of
// the queries as columns too. And back: sums to gradients of any type and stride.
#if defined(TESSERA_CPU_GRADIENT_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_GRADIENT_ROWS_INL_HPP
#undef TESSERA_CPU_GRADIENT_ROWS_INL_HPP
#else
#define TESSERA_CPU_GRADIENT_ROWS_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/forward-inl.hpp"
#include "plan/backward.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using core::Gradients;

constexpr int kSpan = 2 * kStrip;  // queries that one step takes
constexpr double kLog2EDouble = 1.44269504088896341;

// Rows of float32, padded with zeros.
struct Matrix {
  float* data;
  std::int64_t stride;

  float* row(std::int64_t i) const { return data + i * stride; }
};

HWY_INLINE void load_padded(float* to, std::int64_t stride, const Tensor& t, std::byte* from) {
  load(to, t, from, t.shape[3]);
  std::fill(to + t.shape[3], to + stride, 0.f);
}

// Some queries of one head. Rows past the last, and rows that see no key, are zeros and have
// lse = inf: their P is 0, and whatever their memory holds has no effect.
struct Queries {
  Range rows;                        // of the sequence; everything below counts from its begin
  Matrix q, d_out, dq;               // up to whole spans
  float *q_columns, *d_out_columns;  // [strips][dim][kStrip], q scaled, in units of log2
  float *lse, *delta;                // in units of log2; rowsum(dO o O) - dLSE
};

HWY_INLINE float dot(const float* x, const float* y, std::int64_t n) {
  V sum = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += N)
    sum = hn::MulAdd(hn::Load(d, x + i), hn::Load(d, y + i), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void clear_query(Queries& t, std::int64_t r) {
  std::fill_n(t.q.row(r), t.q.stride, 0.f);
  std::fill_n(t.d_out.row(r), t.d_out.stride, 0.f);
  t.lse[r] = kInfinity;
  t.delta[r] = 0;
}

// What both passes of a call read and write for its gradients.
struct BackwardCall {
  const Problem& p;
  const Gradients& g;
};

HWY_INLINE float d_lse_of(const BackwardCall& c, const Head& head, std::int64_t row) {
  return c.g.d_lse.present() ? float(c.g.d_lse.load(head.sequence.q_batch, head.h, row)) : 0.f;
}

HWY_INLINE void pack_query(Queries& t, const BackwardCall& c, const Head& head, std::int64_t r,
                           float* out) {
  const Sequence& s = head.sequence;
  const std::int64_t row = s.q_begin + t.rows.begin + r;
  const double lse = c.p.lse.load(s.q_batch, head.h, row);
  if (std::isinf(lse)) return clear_query(t, r);
  load_padded(t.q.row(r), t.q.stride, c.p.q, c.p.q.at(s.q_batch, row, head.h));
  load_padded(t.d_out.row(r), t.d_out.stride, c.g.d_out, c.g.d_out.at(s.q_batch, row, head.h));
  load_padded(out, t.d_out.stride, c.p.out, c.p.out.at(s.q_batch, row, head.h));
  t.lse[r] = float(lse * kLog2EDouble);
  t.delta[r] = dot(t.d_out.row(r), out, t.d_out.stride) - d_lse_of(c, head, row);
}

// columns [strips][dim][kStrip] of the rows.
HWY_INLINE void transpose(float* columns, const Matrix& rows, std::int64_t count,
                          std::int64_t dim) {
  for (std::int64_t r = 0; r < count; r += kTogether)
    transpose_rows(columns + r / kStrip * dim * kStrip + r % kStrip, rows.row(r), rows.stride, dim);
}

// Packs these rows of the head; `out` is scratch for one row.
HWY_NOINLINE inline void pack_queries(Queries& t, const BackwardCall& c, const Head& head,
                                      Range rows, float* out) {
  t.rows = rows;
  const std::int64_t padded_rows = divide_up(rows.size(), kSpan) * kSpan;
  for (std::int64_t r = 0; r < rows.size(); ++r) pack_query(t, c, head, r, out);
  for (std::int64_t r = rows.size(); r < padded_rows; ++r) clear_query(t, r);
  transpose(t.q_columns, t.q, padded_rows, c.p.dim);
  transpose(t.d_out_columns, t.d_out, padded_rows, c.p.value_dim);
  for (std::int64_t i = 0; i < padded_rows * c.p.dim; ++i) t.q_columns[i] *= log2_scale(c.p);
}

// K and V of a block of keys, counted from its begin.
struct Keys {
  Range range;
  Matrix k, v;
};

HWY_NOINLINE inline void pack_keys(Keys& t, const Problem& p, const Head& head, Range range) {
  t.range = range;
  for (std::int64_t j = 0; j < range.size(); ++j) {
    const core::KeyPlace at = p.place(head.sequence, head.b, range.begin + j);
    load_padded(t.k.row(j), t.k.stride, p.k, p.k.at(at.batch, at.row, head.kv_head));
    load_padded(t.v.row(j), t.v.stride, p.v, p.v.at(at.batch, at.row, head.kv_head));
  }
}

// Whether float32 may have lost the scores of a head: see is_lost of the forward pass.
inline bool is_lost(const Problem& p, const Head& head) {
  constexpr double kFar = 0x1p118;
  const Sequence& s = head.sequence;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const double lse = p.lse.load(s.q_batch, head.h, s.q_begin + i);
    if (!std::isinf(lse) && !(std::abs(lse) < kFar)) return true;
  }
  return false;
}

HWY_INLINE bool all_finite(const Matrix& m, std::int64_t rows) {
  V zero = hn::Zero(d);  // NaN after an element that is not finite
  for (std::int64_t i = 0; i < rows * m.stride; i += N)
    zero = hn::MulAdd(hn::Zero(d), hn::Load(d, m.data + i), zero);
  return hn::AllTrue(d, hn::Eq(zero, hn::Zero(d)));
}

// Stores scale * sums as one row of a gradient, or adds it to what is there; there is scratch.
HWY_INLINE void store_gradient(const Tensor& t, std::byte* at, float* sums, float scale,
                               float* there) {
  const std::int64_t n = t.shape[3];
  for (std::int64_t i = 0; i < n; ++i) sums[i] *= scale;
  if (there != nullptr) {
    load(there, t, at, n);
    for (std::int64_t i = 0; i < n; ++i) sums[i] += there[i];
  }
  store(t, at, sums, n);
}

// The same in double: the careful path.
inline void store_gradient(const Tensor& t, const core::Index4& at, std::span<double> sums,
                           bool accumulate) {
  for (std::size_t i = 0; accumulate && i < sums.size(); ++i)
    sums[i] += t.load({at[0], at[1], at[2], std::int64_t(i)});
  core::store_row(t, at, sums);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
