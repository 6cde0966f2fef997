// The queries of one strip: how a state begins, and how rows leave it. Compiled once per target.
#if defined(TESSERA_CPU_STRIP_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_STRIP_INL_HPP
#undef TESSERA_CPU_STRIP_INL_HPP
#else
#define TESSERA_CPU_STRIP_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/reference.hpp"
#include "cpu/dropout-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

constexpr double kLn2 = 0.693147180559945309;
constexpr std::int64_t kScoreFloats = (kBlock + kKeyTile) * kStrip;  // of a block

// The queries of one strip and what they have seen so far: the State of each row, in lanes.
struct Strip {
  Range rows, visible, full;  // keys seen by any of the rows, and by all of them
  float* q;                   // [dim][kStrip]               Q^T, in units of log2
  float* o;                   // [panels][kStrip][kPanel]
  float* s;                   // [kBlock + kKeyTile][kStrip] S^T, then P^T
  bool plain;                 // a block was scored of which nothing but the band hides a key
  HWY_ALIGN float m[kStrip], l[kStrip], alpha[kStrip];

  float& output(std::int64_t r, std::int64_t column) const {
    return o[(column / kPanel * kStrip + r) * kPanel + column % kPanel];
  }
};

// Where the rows and keys of a strip lie.
HWY_INLINE void aim(Strip& t, const Head& head, Range rows) {
  t.rows = rows;
  t.visible = head.sequence.band.seen_by_any(rows) & head.sequence.keys;
  t.full = head.sequence.band.seen_by_all(rows);
  t.plain = false;
}

// The state that a call starts from, merged into what the strip has: o counts exp(lse), and since
// it is no dropped pair, the factor of dropout at the end is taken back. Both infinities of lse
// mean that nothing was seen, whatever o holds. row has room for value_dim floats.
HWY_NOINLINE inline void resume(Strip& t, const Problem& p, const Head& head, float* row) {
  const auto share = float(1 - double(p.dropout.p));
  const Sequence& s = head.sequence;
  for (std::int64_t r = 0; r < t.rows.size(); ++r) {
    const std::int64_t at = s.q_begin + t.rows.begin + r;
    const auto lse = float(p.state_lse.load(s.q_batch, head.h, at));
    if (std::isinf(lse)) continue;
    const float seen = lse * kLog2E < kLowest ? kLowest : lse * kLog2E;
    const float m = seen <= t.m[r] ? t.m[r] : seen;  // a NaN passes the comparison
    const float weight = std::exp2(seen - m);
    t.l[r] = t.l[r] * std::exp2(t.m[r] - m) + weight;
    t.m[r] = m;
    load(row, p.state_out, p.state_out.at(s.q_batch, at, head.h), p.value_dim);
    for (std::int64_t c = 0; c < p.value_dim; ++c) t.output(r, c) = row[c] * (weight * share);
  }
}

// The state before any key. A sink is a key with the value 0: m is its logit, l is 1.
template <class T = Float32>
HWY_INLINE void begin(Strip& t, const Problem& p, const Head& head, float* rows) {
  const float sink = p.sink.present() ? float(p.sink.load(head.h)) * kLog2E : -kInfinity;
  std::fill_n(t.m, kStrip, sink);
  std::fill_n(t.l, kStrip, sink == -kInfinity ? 0.f : 1.f);
  std::fill_n(t.o, kStrip * padded(p.value_dim), 0.f);
  const Sequence& s = head.sequence;
  const std::int64_t steps = T::steps(p.dim);
  prefetch_rows(p.q, {s.q_batch, s.q_begin + t.rows.begin, head.h, 0}, t.rows.size());
  for (std::int64_t r = 0; r < t.rows.size(); r += kTogether) {
    for (std::int64_t i = 0; i < kTogether; ++i) {
      const std::int64_t at = std::min(r + i, t.rows.size() - 1);  // the last row repeats
      T::load_query(rows + i * steps, p, p.q.at(s.q_batch, s.q_begin + t.rows.begin + at, head.h));
    }
    transpose_rows(t.q + r, rows, steps, steps);
  }
  if (p.state_lse.present()) resume(t, p, head, rows);
}

// out = O / l for one row, and what a pair counts that dropout kept. False if an element is not
// finite.
HWY_INLINE bool store_row(const Strip& t, const Problem& p, const Head& head, std::int64_t r,
                          float* row) {
  const float kept = p.dropout.p == 0 ? 1.f : float(p.dropout.factor());
  const float factor = t.l[r] == 0 ? 0.f : kept / t.l[r];
  V zero = hn::Zero(d);  // NaN after an element that is not finite
  for (std::int64_t c = 0; c < p.value_dim; c += N) {
    const V x = hn::Mul(hn::Set(d, factor), hn::Load(d, &t.output(r, c)));
    zero = hn::MulAdd(hn::Zero(d), x, zero);
    hn::StoreU(x, d, row + c);
  }
  const Sequence& s = head.sequence;
  store(p.out, p.out.at(s.q_batch, s.q_begin + t.rows.begin + r, head.h), row, p.value_dim);
  return hn::AllTrue(d, hn::Eq(zero, hn::Zero(d)));
}

HWY_INLINE void store_lse(const Strip& t, const Problem& p, const Head& head, std::int64_t r) {
  const double l = t.l[r];
  const double lse = l == 0 ? -double(kInfinity) : (double(t.m[r]) + std::log2(l)) * kLn2;
  p.lse.store({head.sequence.q_batch, head.h, head.sequence.q_begin + t.rows.begin + r, 0}, lse);
}

// Whether the largest score of a row is too far from 0 for the others to be told from it, or for
// itself to be measured from m.
HWY_INLINE bool is_far(float m, float l) {
  return !(std::abs(m) < 0x1p120f && l > 0x1p-40f && l < 0x1p100f);
}

// Whether float32 may have lost the scores of a row: they are far, or overflowed to -inf where the
// row sees a key.
HWY_INLINE bool is_lost(const Strip& t, const Head& head, std::int64_t r) {
  if (t.m[r] != -kInfinity) return is_far(t.m[r], t.l[r]);
  const std::int64_t row = t.rows.begin + r;
  return t.plain && !(head.sequence.band.seen_by_any({row, row + 1}) & t.visible).empty();
}

// The careful path. A weight of 0 does not hide a NaN or an infinity in V, and float32 may overflow
// where the definition does not: a row that came out so is computed by the definition.
HWY_NOINLINE inline void define_row(const Problem& p, const Head& head, std::int64_t i,
                                    double* row) {
  const std::span<double> out(row, std::size_t(p.value_dim));
  const double lse = core::reference::forward_row(p, head.b, head.h, i, out);
  const std::int64_t batch = head.sequence.q_batch, at = head.sequence.q_begin + i;
  for (std::int64_t c = 0; c < p.value_dim; ++c) p.out.store({batch, at, head.h, c}, row[c]);
  if (p.lse.present()) p.lse.store({batch, head.h, at, 0}, lse);
}

// An empty row gives 0 and -inf. row has room for value_dim doubles.
HWY_INLINE void finish(const Strip& t, const Problem& p, const Head& head, float* row) {
  for (std::int64_t r = 0; r < t.rows.size(); ++r) {
    const bool finite = store_row(t, p, head, r, row);
    if (p.lse.present()) store_lse(t, p, head, r);
    if (!finite || is_lost(t, head, r))
      define_row(p, head, t.rows.begin + r, reinterpret_cast<double*>(row));
  }
}

// Rows that belong to no sequence say what a row without keys says, in head h. row has room for
// value_dim floats.
HWY_NOINLINE inline void clear(const Problem& p, std::int64_t h, float* row) {
  std::fill_n(row, p.value_dim, 0.f);
  for (std::int64_t b = 0; b <= p.batch; ++b) {
    const Range rows = p.rows_between(b);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      store(p.out, p.out.at(0, i, h), row, p.value_dim);
      if (p.lse.present()) p.lse.store({0, h, i, 0}, -double(kInfinity));
    }
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
