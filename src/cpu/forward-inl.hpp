// Online softmax over blocks of keys, compiled once per target (Dao 2023, algorithm 1).
#if defined(TESSERA_CPU_FORWARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FORWARD_INL_HPP
#undef TESSERA_CPU_FORWARD_INL_HPP
#else
#define TESSERA_CPU_FORWARD_INL_HPP
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/invariant-inl.hpp"
#include "cpu/strip-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// The longest sum of a score. A scale above the default magnifies its error, beyond what the scores
// say where their terms cancel: shorter sums halve it (docs/numerics.md).
HWY_INLINE std::int64_t longest_chain(const Problem& p) {
  return p.scale * p.scale * double(p.dim) > 2 ? 32 : kLongestChain;
}

template <int kHalves>
HWY_INLINE void multiply_keys(V (&s)[kKeyTile][2], const float* const (&k)[kKeyTile],
                              const float* q, const Problem& p) {
  multiply_chains<kHalves>(s, k, q, p.dim, longest_chain(p));
}

// The maximum of each row of s [keys][kStrip], and of what top holds.
template <int kHalves> HWY_INLINE void raise_top(const float* s, std::int64_t keys, V (&top)[2]) {
  for (std::int64_t j = 0; j < keys; ++j, s += kStrip)
    for (int half = 0; half < kHalves; ++half)
      top[half] = hn::Max(top[half], hn::Load(d, s + half * N));
}

template <int kHalves> HWY_INLINE void find_top(const float* s, std::int64_t keys, V (&top)[2]) {
  top[0] = top[1] = hn::Set(d, -kInfinity);
  raise_top<kHalves>(s, keys, top);
}

// s = -inf where the band hides one of `keys` from a row.
template <int kHalves>
HWY_NOINLINE inline void hide(float* s, const core::Band& band, Range rows, Range keys) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j, s += kStrip) {
    const std::int64_t diagonal = j - band.offset - rows.begin;
    const float low = float(diagonal - band.right), high = float(diagonal + band.left);
    for (int half = 0; half < kHalves; ++half)
      hn::Store(hide_unless(lanes_within(half, low, high), hn::Load(d, s + half * N)), d,
                s + half * N);
  }
}

// S = Q K^T for a block of keys, hidden where the band says so; top = the maximum of each row. Here
// and below, lanes past the last row hold anything and are never stored.
template <int kHalves, class Block>
HWY_INLINE void score(Strip& t, const Problem& p, const core::Band& band, const Block& kv,
                      V (&top)[2]) {
  const Range block = kv.keys;
  top[0] = top[1] = hn::Set(d, -kInfinity);
  float* to = t.s + kv.lead() * kStrip;
  for (std::int64_t key = block.begin; key < block.end; key += kKeyTile, to += kKeyTile * kStrip) {
    const Range keys = Range{key, key + kKeyTile} & block;
    // Past the end the last key repeats: rows beyond may be no memory. Nobody reads those scores.
    const typename Block::Element* rows[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) rows[j] = kv.key(std::min(key + j, block.end - 1));
    V s[kKeyTile][2];
    multiply_keys<kHalves>(s, rows, t.q, p);
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < kHalves; ++half)
        hn::Store(s[j][half], d, to + j * kStrip + half * N);
    if (t.full.contains(keys)) {
      for (int j = 0; j < kKeyTile; ++j)
        for (int half = 0; half < kHalves; ++half) top[half] = hn::Max(top[half], s[j][half]);
    } else {
      hide<kHalves>(to, band, t.rows, keys);
      raise_top<kHalves>(to, keys.size(), top);
    }
  }
}

// P = 2^(unit S - m); l = alpha l + rowsum(P), alpha = 2^(m_old - m). S, P: these rows of t.s.
// Dropout removes pairs from P, but not from its sum.
template <int kHalves, class T = Float32, class Kept = EveryPair>
HWY_INLINE void absorb(Strip& t, Range rows, const V (&top)[2], float unit = 1,
                       const Kept& kept = {}) {
  V base[2], sum[2];  // the block has its own sum: one long sum would drift
  for (int half = 0; half < kHalves; ++half) {
    const V old = hn::Load(d, t.m + half * N);
    const V m = hn::Max(old, hn::Mul(top[half], hn::Set(d, unit)));
    // A row that has seen no key keeps m = -inf; measured from 0 its exponents are all -inf.
    base[half] = hn::IfThenElse(hn::Eq(m, hn::Set(d, -kInfinity)), hn::Zero(d), m);
    sum[half] = hn::Zero(d);
    hn::Store(m, d, t.m + half * N);
    hn::Store(exp2(hn::Sub(old, base[half])), d, t.alpha + half * N);
  }
  T::template weigh<kHalves>(t.s, rows, unit, base, sum);
  kept.template drop<kHalves>(t.s, rows.size());
  for (int half = 0; half < kHalves; ++half) {
    const V alpha = hn::Load(d, t.alpha + half * N), l = hn::Load(d, t.l + half * N);
    hn::Store(hn::MulAdd(alpha, l, sum[half]), d, t.l + half * N);
  }
}

// O = alpha O + P V for some keys of the block and panel c; each tile of rows reads only the keys
// that it sees.
template <int kTile = 0, class Block>
HWY_INLINE void accumulate_panel(Strip& t, const core::Band& band, const Block& kv, Range wanted,
                                 int c) {
  constexpr int kBegin = row_tile_begin(kTile), kEnd = row_tile_begin(kTile + 1);
  const Range rows = Range{t.rows.begin + kBegin, t.rows.begin + kEnd} & t.rows;
  const Range keys = band.seen_by_any(rows) & wanted;
  if (!rows.empty() && !keys.empty())
    accumulate<kEnd - kBegin>(t.o + (c * kStrip + kBegin) * kPanel, t.alpha + kBegin, t.s + kBegin,
                              kv.values(keys, c));
  if constexpr (kTile + 1 < kRowTiles) accumulate_panel<kTile + 1>(t, band, kv, wanted, c);
}

template <class Block>
HWY_INLINE void accumulate_keys(Strip& t, const Problem& p, const core::Band& band, const Block& kv,
                                Range wanted) {
  for (int c = 0; c * kPanel < p.value_dim; ++c) accumulate_panel(t, band, kv, wanted, c);
}

// The same where the block falls into runs of keys that somebody sees: O is rescaled once.
template <class Block>
HWY_NOINLINE inline void accumulate_runs(Strip& t, const Problem& p, const core::Band& band,
                                         const Block& kv, const Runs& runs) {
  for (std::int64_t c = 0; c < p.value_dim; c += kPanel)
    for (int r = 0; r < kStrip; ++r)
      for (int half = 0; half < 2; ++half) {
        float* o = &t.output(r, c) + half * N;
        hn::Store(hn::Mul(hn::Set(d, t.alpha[r]), hn::Load(d, o)), d, o);
      }
  std::fill_n(t.alpha, kStrip, 1.f);
  for (int i = 0; i < runs.size; ++i) accumulate_keys(t, p, band, kv, runs.run[i]);
}

// What one worker writes to.
template <class T = Float32> struct Scratch {
  const Problem& problem;
  Strip strips[plan::kMostStrips];
  int count;  // of them that a task uses
  float* row;
  Modifiers modifiers;
  typename T::Packer packer;
  KeptPairs kept;

  Scratch(const Problem& p, const plan::Plan& plan, float* memory)
      : problem(p),
        count(int(plan.task_queries / kStrip)),
        row(memory + strip_floats(p) * count + kScoreFloats),
        modifiers(p, row + row_floats(p)),
        packer(p, plan, row + row_floats(p) + Modifiers::scratch_floats(p)) {
    for (Strip& t : strips) {
      t.q = memory + (&t - strips) * strip_floats(p);
      t.o = t.q + T::steps(p.dim) * kStrip;
      t.s = memory + count * strip_floats(p);  // one after the other uses it
    }
  }

  static std::int64_t strip_floats(const Problem& p) {
    return (T::steps(p.dim) + padded(p.value_dim)) * kStrip;
  }
  static std::int64_t row_floats(const Problem& p) {  // kTogether of float, or one of double
    return divide_up(std::max(kTogether * T::steps(p.dim), 2 * padded(p.value_dim)), kStrip) *
           kStrip;
  }
};

// The keys that some row sees and keeps, then P; scores of the block begin at row `lead` of t.s.
template <class T, int kHalves, class Block, class Kept>
HWY_INLINE void absorb_runs(Strip& t, const Block& kv, const Kept& kept, Runs& runs) {
  const float* const s = t.s + kv.lead() * kStrip;
  V top[2];
  find_top<kHalves>(s, kv.keys.size(), top);
  find_runs<kHalves>(s, t.rows.size(), kv.keys, runs, kept);
  absorb<kHalves, T>(t, {kv.lead(), kv.lead() + kv.keys.size()}, top, 1, kept);
}

// P and O of a block whose scores change, or which loses pairs to dropout.
template <class T, int kHalves, class Block>
HWY_NOINLINE inline void absorb_modified(Strip& t, const Head& head, Scratch<T>& w, const Block& kv,
                                         Seen seen) {
  const Problem& p = w.problem;
  const core::Band& band = head.sequence.band;
  const bool dropping = p.dropout.p != 0;
  float* const s = t.s + kv.lead() * kStrip;
  Runs runs;
  T::template scale<kHalves>(s, kv.keys.size(), T::unit(p));
  if (w.modifiers.needed(seen)) w.modifiers.template apply<kHalves>(head, t.rows, kv.keys, seen, s);
  kv.mark_rows(t.s, p, head, t.l);
  if (dropping) {  // in float32 alone: the planner sees to it
    w.kept.template draw<kHalves>(p, head, t.rows, kv.keys);
    absorb_runs<T, kHalves>(t, kv, w.kept, runs);
  } else {
    absorb_runs<T, kHalves>(t, kv, EveryPair(), runs);
  }
  // A dropped key raises the maximum without being in a run: O is then rescaled whatever the runs.
  if (runs.size == 1 && (!dropping || runs.run[0] == kv.keys))
    return accumulate_keys(t, p, band, kv, runs.run[0]);
  if constexpr (std::is_same_v<T, Float32>)
    if (runs.size > 0 && p.batch_invariant) return accumulate_through(t, p, kv, runs);
  if (runs.size > 0 || dropping) accumulate_runs(t, p, band, kv, runs);
}

// One block of keys for one strip: S, P, O.
template <class T, int kHalves>
HWY_INLINE void step(Strip& t, const Problem& p, const Head& head, Scratch<T>& w, Range block) {
  const Seen seen = w.modifiers.scan(head, t.rows, block);
  if (seen == Seen::kNone) return;
  const core::Band& band = head.sequence.band;
  const auto kv = w.packer(p, head.sequence, head.kv_head, block);
  const bool modified = w.modifiers.needed(seen);
  V top[2];
  score<kHalves>(t, p, band, kv, top);
  t.plain = t.plain || !modified;
  if (modified || p.dropout.p != 0) return absorb_modified<T, kHalves>(t, head, w, kv, seen);
  kv.mark_rows(t.s, p, head, t.l);
  absorb<kHalves, T>(t, {kv.lead(), kv.lead() + block.size()}, top, T::unit(p));
  accumulate_keys(t, p, band, kv, block);
}

// One task: the queries of one head from `row` on.
template <class T>
HWY_NOINLINE inline void attend(const Problem& p, Scratch<T>& w, const Head& head,
                                std::int64_t row) {
  const Range rows = Range{row, row + w.count * kStrip} & Range{0, head.sequence.queries};
  const Range keys = head.sequence.band.seen_by_any(rows) & head.sequence.keys;
  const int strips = int(divide_up(rows.size(), kStrip));
  for (int i = 0; i < strips; ++i) {
    aim(w.strips[i], head, Range{row + i * kStrip, row + (i + 1) * kStrip} & rows);
    begin<T>(w.strips[i], p, head, w.row);
  }
  for (std::int64_t key = keys.begin / kBlock * kBlock; key < keys.end; key += kBlock)
    for (int i = 0; i < strips; ++i) {
      const Range block = w.strips[i].visible & Range{key, key + kBlock};
      if (block.empty()) continue;
      const bool half = w.strips[i].rows.size() <= N;
      half ? step<T, 1>(w.strips[i], p, head, w, block)
           : step<T, 2>(w.strips[i], p, head, w, block);
    }
  for (int i = 0; i < strips; ++i) {
    T::settle(w.strips[i], p);
    finish(w.strips[i], p, head, w.row);
  }
}

template <class T = Float32> HWY_NOINLINE void forward(Call& call, int worker) {
  const Problem& p = call.problem;
  const std::int64_t with_queries = call.plan.tasks - call.plan.clearing;
  Scratch<T> scratch(p, call.plan, call.of_worker(worker));
  [[maybe_unused]] const typename T::Session session;
  call.tasks.work(worker, [&](std::int64_t index) {
    if (index >= with_queries) return clear(p, index - with_queries, scratch.row);
    const Schedule::Task task = call.schedule.task(index);
    attend<T>(p, scratch, Head(p, task.b, task.h), task.row);
  });
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
