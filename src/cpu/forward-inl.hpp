// Online softmax over blocks of keys, compiled once per target (Dao 2023, algorithm 1).
#if defined(TESSERA_CPU_FORWARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FORWARD_INL_HPP
#undef TESSERA_CPU_FORWARD_INL_HPP
#else
#define TESSERA_CPU_FORWARD_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/reference.hpp"
#include "cpu/invariant-inl.hpp"
#include "cpu/scores-inl.hpp"

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

// The state before any key. A sink is a key with the value 0: m is its logit, l is 1.
HWY_INLINE void begin(Strip& t, const Problem& p, const Head& head, float* rows) {
  const float sink = p.sink.present() ? float(p.sink.load(head.h)) * kLog2E : -kInfinity;
  std::fill_n(t.m, kStrip, sink);
  std::fill_n(t.l, kStrip, sink == -kInfinity ? 0.f : 1.f);
  std::fill_n(t.o, kStrip * padded(p.value_dim), 0.f);
  const Sequence& s = head.sequence;
  for (std::int64_t r = 0; r < t.rows.size(); r += kTogether) {
    for (std::int64_t i = 0; i < kTogether; ++i) {
      float* const row = rows + i * p.dim;
      const std::int64_t at = std::min(r + i, t.rows.size() - 1);  // the last row repeats
      load(row, p.q, p.q.at(s.q_batch, s.q_begin + t.rows.begin + at, head.h), p.dim);
    }
    for (std::int64_t i = 0; i < kTogether * p.dim; ++i) rows[i] *= p.scale * kLog2E;
    transpose_rows(t.q + r, rows, p.dim, p.dim);
  }
}

// The longest sum of a score. A scale above the default magnifies its error with it, beyond what the
// scores say where their terms cancel: shorter sums halve it (docs/numerics.md).
HWY_INLINE std::int64_t longest_chain(const Problem& p) {
  return p.scale * p.scale * float(p.dim) > 2 ? 32 : kLongestChain;
}

// S = Q K^T for a block of keys, hidden where the band says so; top = the maximum of each row. Here
// and below, lanes past the last row hold anything and are never stored.
template <int kHalves>
HWY_INLINE void score(Strip& t, const Problem& p, const core::Band& band, const KeyBlock& kv,
                      V (&top)[2]) {
  const Range block = kv.keys;
  const std::int64_t chain = longest_chain(p);
  top[0] = top[1] = hn::Set(d, -kInfinity);
  float* to = t.s;
  for (std::int64_t key = block.begin; key < block.end; key += kKeyTile) {
    // Past the end the last key repeats: that changes no maximum, and nobody reads it.
    const auto index = [&](int j) { return std::min(key + j, block.end - 1); };
    const float* rows[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) rows[j] = kv.key(index(j));
    V s[kKeyTile][2];
    if (p.dim <= chain)
      multiply_transposed<kHalves>(s, rows, t.q, p.dim);
    else
      multiply_long<kHalves>(s, rows, t.q, p.dim, chain);
    if (!t.full.contains(Range{key, key + kKeyTile} & block))
      for (int j = 0; j < kKeyTile; ++j) {
        const std::int64_t diagonal = index(j) - band.offset - t.rows.begin;
        const float low = float(diagonal - band.right), high = float(diagonal + band.left);
        for (int half = 0; half < kHalves; ++half)
          s[j][half] = hide_unless(lanes_within(half, low, high), s[j][half]);
      }
    for (int j = 0; j < kKeyTile; ++j, to += kStrip)
      for (int half = 0; half < kHalves; ++half) {
        top[half] = hn::Max(top[half], s[j][half]);
        hn::Store(s[j][half], d, to + half * N);
      }
  }
}

template <int kHalves> HWY_INLINE void find_top(const float* s, std::int64_t keys, V (&top)[2]) {
  top[0] = top[1] = hn::Set(d, -kInfinity);
  for (std::int64_t j = 0; j < keys; ++j, s += kStrip)
    for (int half = 0; half < kHalves; ++half)
      top[half] = hn::Max(top[half], hn::Load(d, s + half * N));
}

// P = 2^(S - m); l = alpha l + rowsum(P), alpha = 2^(m_old - m).
template <int kHalves> HWY_INLINE void absorb(Strip& t, std::int64_t keys, const V (&top)[2]) {
  V base[2], sum[2];  // the block has its own sum: one long sum would drift
  for (int half = 0; half < kHalves; ++half) {
    const V old = hn::Load(d, t.m + half * N), m = hn::Max(old, top[half]);
    // A row that has seen no key keeps m = -inf; measured from 0 its exponents are all -inf.
    base[half] = hn::IfThenElse(hn::Eq(m, hn::Set(d, -kInfinity)), hn::Zero(d), m);
    sum[half] = hn::Zero(d);
    hn::Store(m, d, t.m + half * N);
    hn::Store(exp2(hn::Sub(old, base[half])), d, t.alpha + half * N);
  }
  float* s = t.s;
  for (std::int64_t j = 0; j < keys; ++j, s += kStrip)
    for (int half = 0; half < kHalves; ++half) {
      const V weight = exp2(hn::Sub(hn::Load(d, s + half * N), base[half]));
      sum[half] = hn::Add(sum[half], weight);
      hn::Store(weight, d, s + half * N);
    }
  for (int half = 0; half < kHalves; ++half) {
    const V alpha = hn::Load(d, t.alpha + half * N), l = hn::Load(d, t.l + half * N);
    hn::Store(hn::MulAdd(alpha, l, sum[half]), d, t.l + half * N);
  }
}

// O = alpha O + P V for some keys of the block and panel c; each tile of rows reads only the keys
// that it sees.
template <int kTile = 0>
HWY_INLINE void accumulate_panel(Strip& t, const core::Band& band, const KeyBlock& kv, Range wanted,
                                 int c) {
  constexpr int kBegin = row_tile_begin(kTile), kEnd = row_tile_begin(kTile + 1);
  const Range rows = Range{t.rows.begin + kBegin, t.rows.begin + kEnd} & t.rows;
  const Range keys = band.seen_by_any(rows) & wanted;
  if (!rows.empty() && !keys.empty())
    accumulate<kEnd - kBegin>(t.o + (c * kStrip + kBegin) * kPanel, t.alpha + kBegin,
                              t.s + (keys.begin - kv.keys.begin) * kStrip + kBegin,
                              ValueRows{kv.value(keys.begin, c), kv.v_row, keys.size()});
  if constexpr (kTile + 1 < kRowTiles) accumulate_panel<kTile + 1>(t, band, kv, wanted, c);
}

HWY_INLINE void accumulate_keys(Strip& t, const Problem& p, const core::Band& band,
                                const KeyBlock& kv, Range wanted) {
  for (int c = 0; c * kPanel < p.value_dim; ++c) accumulate_panel(t, band, kv, wanted, c);
}

// The same where the block falls into runs of keys that somebody sees: O is rescaled once.
HWY_NOINLINE void accumulate_runs(Strip& t, const Problem& p, const core::Band& band,
                                  const KeyBlock& kv, const Runs& runs) {
  for (std::int64_t c = 0; c < p.value_dim; c += kPanel)
    for (int r = 0; r < kStrip; ++r)
      for (int half = 0; half < 2; ++half) {
        float* o = &t.output(r, c) + half * N;
        hn::Store(hn::Mul(hn::Set(d, t.alpha[r]), hn::Load(d, o)), d, o);
      }
  std::fill_n(t.alpha, kStrip, 1.f);
  for (int i = 0; i < runs.size; ++i) accumulate_keys(t, p, band, kv, runs.run[i]);
}

// out = O / l for one row. False if an element is not finite.
HWY_INLINE bool store_row(const Strip& t, const Problem& p, const Head& head, std::int64_t r,
                          float* row) {
  const float factor = t.l[r] == 0 ? 0.f : 1 / t.l[r];
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

// Whether float32 may have lost the scores of a row: the largest is too far from 0 for the others
// to be told from it, or they overflowed to -inf where the row sees a key.
HWY_INLINE bool is_lost(const Strip& t, const Head& head, std::int64_t r) {
  constexpr float kFar = 0x1p120f;
  if (t.m[r] != -kInfinity) return !(std::abs(t.m[r]) < kFar);
  const std::int64_t row = t.rows.begin + r;
  return t.plain && !(head.sequence.band.seen_by_any({row, row + 1}) & t.visible).empty();
}

// The careful path. A weight of 0 does not hide a NaN or an infinity in V, and float32 may overflow
// where the definition does not: a row that came out so is computed by the definition.
HWY_NOINLINE void define_row(const Problem& p, const Head& head, std::int64_t i, double* row) {
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

// What one worker writes to.
struct Scratch {
  Strip strips[plan::kMostStrips];
  int count;  // of them that a task uses
  float* row;
  Modifiers modifiers;
  Packer packer;

  Scratch(const Problem& p, const plan::Plan& plan, float* memory)
      : count(int(plan.task_queries / kStrip)),
        row(memory + strip_floats(p) * count + kScoreFloats),
        modifiers(p, row + row_floats(p)),
        packer(p, plan.packing, row + row_floats(p) + Modifiers::scratch_floats(p)) {
    for (Strip& t : strips) {
      t.q = memory + (&t - strips) * strip_floats(p);
      t.o = t.q + p.dim * kStrip;
      t.s = memory + count * strip_floats(p);  // one after the other uses it
    }
  }

  static std::int64_t strip_floats(const Problem& p) {
    return (p.dim + padded(p.value_dim)) * kStrip;
  }
  static std::int64_t row_floats(const Problem& p) {  // kTogether of float, or one of double
    return divide_up(std::max(kTogether * p.dim, 2 * padded(p.value_dim)), kStrip) * kStrip;
  }
};

// One block of keys for one strip: S, P, O.
template <int kHalves>
HWY_INLINE void step(Strip& t, const Problem& p, const Head& head, Scratch& w, Range block) {
  const Seen seen = w.modifiers.scan(head, t.rows, block);
  if (seen == Seen::kNone) return;
  const core::Band& band = head.sequence.band;
  const KeyBlock kv = w.packer(p, head.sequence, head.kv_head, block);
  V top[2];
  score<kHalves>(t, p, band, kv, top);
  if (!w.modifiers.needed(seen)) {
    t.plain = true;
    absorb<kHalves>(t, block.size(), top);
    return accumulate_keys(t, p, band, kv, block);
  }
  w.modifiers.apply<kHalves>(head, t.rows, block, seen, t.s);
  find_top<kHalves>(t.s, block.size(), top);
  Runs runs;
  find_runs<kHalves>(t.s, t.rows.size(), block, runs);
  absorb<kHalves>(t, block.size(), top);
  if (runs.size == 1) return accumulate_keys(t, p, band, kv, runs.run[0]);
  if (runs.size > 1 && p.batch_invariant) return accumulate_through(t, p, kv, runs);
  if (runs.size > 1) accumulate_runs(t, p, band, kv, runs);
}

// One task: the queries of one head from `row` on.
HWY_NOINLINE void attend(const Problem& p, Scratch& w, const Head& head, std::int64_t row) {
  const Range rows = Range{row, row + w.count * kStrip} & Range{0, head.sequence.queries};
  const Range keys = head.sequence.band.seen_by_any(rows) & head.sequence.keys;
  const int strips = int(divide_up(rows.size(), kStrip));
  for (int i = 0; i < strips; ++i) {
    aim(w.strips[i], head, Range{row + i * kStrip, row + (i + 1) * kStrip} & rows);
    begin(w.strips[i], p, head, w.row);
  }
  for (std::int64_t key = keys.begin / kBlock * kBlock; key < keys.end; key += kBlock)
    for (int i = 0; i < strips; ++i) {
      const Range block = w.strips[i].visible & Range{key, key + kBlock};
      if (block.empty()) continue;
      const bool half = w.strips[i].rows.size() <= N;
      half ? step<1>(w.strips[i], p, head, w, block) : step<2>(w.strips[i], p, head, w, block);
    }
  for (int i = 0; i < strips; ++i) finish(w.strips[i], p, head, w.row);
}

// Head by head, so that keys and values stay near; the last rows, which a causal band makes the
// longest, first, so that the workers end together.
HWY_NOINLINE void forward(Call& call, int worker) {
  const Problem& p = call.problem;
  const std::int64_t rows = call.plan.task_queries, blocks = divide_up(p.queries, rows);
  Scratch scratch(p, call.plan, call.of_worker(worker));
  call.tasks.work(worker, [&](std::int64_t task) {
    attend(p, scratch, Head(p, task / blocks), (blocks - 1 - task % blocks) * rows);
  });
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
