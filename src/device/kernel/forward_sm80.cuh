// Attention forward on mma.m16n8k16 and cp.async: every NVIDIA GPU since Ampere.
//
// A block takes a tile of queries of one head, a warp 16 or 32 rows of it. Tiles of keys and values
// come through a ring of stages; the copies of step i + 1 run beside the arithmetic of step i:
//
//   copies     Q K(0) V(0)   K(1) V(1)        K(2) V(2)        ...
//   step 0                   S   softmax   O
//   step 1                                 |  S   softmax   O
//
// One barrier a step: keys and values have landed for everybody, and everybody has left the stage
// that the next copies overwrite. Within a step warps go their own ways: one multiplies while
// another takes exponents.
#pragma once
#include <isa/copy.cuh>

#include "device/attention/careful.cuh"
#include "device/attention/copies.cuh"
#include "device/attention/score.cuh"
#include "device/attention/state.cuh"
#include "device/attention/store.cuh"
#include "device/attention/stream.cuh"
#include "device/attention/visible.cuh"
#include "device/params.cuh"
#include "device/policy.cuh"
#include "device/tile/multiply.cuh"
#include "device/tile/shared.cuh"

namespace tessera::device {

template <class C> struct Memory {
  SharedTile<C::kTileQ, C::kDim> q{isa::shared_base()};

  using Keys = SharedTile<C::kTileK, C::kDim>;
  TS_DEVICE Keys keys(int step) const { return stage(step % C::kStages); }
  TS_DEVICE Keys values(int step) const { return stage(C::kStages + step % C::kStages); }

 private:
  TS_DEVICE Keys stage(int i) const {
    return {Address(u32(q.base) + u32(C::kQueryBytes + i * C::kKeyBytes))};
  }
};

// The rows of queries that a block computes, and the keys that some of them see.
template <class C> struct Work {
  Range rows, span;
  i64 first;  // key of step 0
  int steps;

  TS_DEVICE Work(const Sequence& s, int tile) {
    rows = Range{i64(tile) * C::kTileQ, i64(tile + 1) * C::kTileQ} & Range{0, s.queries};
    span = s.keys & s.band.seen_by_any(rows);
    if (rows.empty() || span.empty()) span = {0, 0};
    first = span.begin / C::kTileK * C::kTileK;
    steps = int((span.end - first + C::kTileK - 1) / C::kTileK);
  }
};

// What a block does, as 64-bit numbers. It is cheap to find again, so no register keeps it while
// the steps run.
template <class C> struct Place {
  const ForwardParams& p;
  Sequence s;
  int index;  // of the head
  int tile;
  Work<C> work;

  // Tiles that see most keys come first.
  TS_DEVICE Place(const ForwardParams& params, Index3 at)
      : p(params), s(params, at.z), index(at.y), tile(isa::grid().x - 1 - at.x), work(s, tile) {}

  TS_DEVICE Head head() const { return {p, s, index}; }
  TS_DEVICE Output<typename C::T> out() const { return {p, s, index}; }

  TS_DEVICE i64 first_row() const { return work.rows.begin + isa::warp() * C::kWarpRows; }
  TS_DEVICE i64 query(int half) const {
    return first_row() + Sums<C::kBlocks, 16>::row_of_half(half);
  }
  TS_DEVICE Visible visible() const {
    const Range mine{first_row(), first_row() + C::kWarpRows};
    return {s.band, work.span, work.first, mine, isa::lane() / 4};
  }
};

// What a warp does: its rows, 16 to a block of sums.
template <class C> struct Warp {
  using T = typename C::T;
  using Scores = Sums<C::kBlocks, C::kTileK>;
  static constexpr int kHalves = Scores::kHalves;

  const ForwardParams& p;
  Memory<C> memory;
  Scores s;
  Weights<C::kBlocks, C::kTileK> weights;
  State<C::kBlocks, C::kDim> state;

  TS_DEVICE explicit Warp(const ForwardParams& params) : p(params) {}

  // Scores of the keys from `first` on as the softmax takes them; -inf where they are hidden.
  TS_DEVICE void score(const Place<C>& at, const Visible& visible, int first) {
    if (C::kAny && (p.score.adjusts || p.score.mask.data)) {
      score_pairs(at, at.work.first + first);
    } else if (!visible.all(first, C::kTileK)) {
      visible.hide(s, first);
    }
  }
  TS_DEVICE void score_pairs(const Place<C>& at, i64 first) {
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const i64 i = at.query(Scores::half(e)), j = first + Scores::column(e);
      if (i >= at.s.queries || !at.head().sees(i, j))
        s[e] = -kInfinity;
      else if (p.score.adjusts)
        s[e] = at.head().adjusted(s[e] * float(p.score.scale), i, j);
    }
  }

  TS_DEVICE void attend(const Place<C>& at, bool scrubbing) {
    const Visible visible = at.visible();
    KeyStream<C> stream(at.head(), at.work.span, at.work.first);
    const int rows = isa::warp() * C::kWarpRows, end = at.work.steps * C::kTileK;
    state.clear();
    stream.start_queries(memory.q, at.head(), at.work.rows.begin);
    const auto start = [&](int step, int key) {
      if (key < end)
        stream.start(memory.keys(step), memory.values(step), visible.begin - key,
                     visible.end - key);
      isa::copy_commit();
    };
    start(0, 0);
    for (int first = 0, step = 0; first < end; first += C::kTileK, ++step) {
      isa::copy_wait<0>();
      isa::sync_block();
      start(step + 1, first + C::kTileK);
      if (scrubbing) scrub_values(step);
      multiply_transposed<T>(s, memory.q, rows, memory.keys(step));  // S = Q K^T
      score(at, visible, first);
      state.absorb(s, p.score.unit);  // P = exp(S - m)
      round<T>(weights, s);
      accumulate<T>(state.o, weights, memory.values(step));  // O += P V
    }
    isa::copy_wait<0>();
  }
  TS_DEVICE void scrub_values(int step) const {
    scrub<T, C::kThreads>(memory.values(step));
    isa::sync_block();
  }

  // Rows of this warp, as bits, of which each lane knows its own.
  TS_DEVICE static u32 rows_where(const bool (&is)[kHalves]) {
    bool some = false;
    TS_UNROLL for (int h = 0; h < kHalves; ++h) some = some || is[h];
    if (!isa::any(some)) return 0;
    u32 rows = 0;
    TS_UNROLL for (int r = 0; r < C::kWarpRows; ++r)
        if (isa::any(isa::lane() / 4 == r % 8 && is[r / 8])) rows |= 1u << r;
    return rows;
  }

  // Rows whose sums are not finite: 0 times such a sum is not 0.
  TS_DEVICE u32 odd_rows() const {
    float zero[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) zero[h] = 0 * state.l[h];
    TS_UNROLL for (int e = 0; e < state.o.size; ++e) zero[state.o.half(e)] =
        isa::fma(0, state.o[e], zero[state.o.half(e)]);
    bool odd[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) odd[h] = zero[h] != 0;
    return rows_where(odd);
  }
  // Rows whose largest score is lost: it is so large that 2^(unit S - unit m) is off by factors,
  // or no key was found where the band shows some and a score may have overflowed.
  TS_DEVICE u32 lost_rows(const Place<C>& at) const {
    bool lost[kHalves], some = false;
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      lost[h] = !(isa::abs(state.m[h] * p.score.unit) < 0x1p24f);
      some = some || lost[h];
    }
    if (!isa::any(some)) return 0;
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      const bool empty = (at.s.keys & at.s.band.seen_by(at.query(h))).empty();
      lost[h] = lost[h] && !(state.m[h] == -kInfinity && empty);
    }
    return rows_where(lost);
  }

  // All rows but those of `except`.
  TS_DEVICE void store(const Place<C>& at, u32 except) {
    const Output<T> out = at.out();
    const auto finished = state.finish(p.score, at.head().sink());
    const int first = isa::warp() * C::kWarpRows;
    put<T>(memory.q, first, state.o);  // in the place of the warp's queries
    isa::sync_warp();
    out.template store<C::kWarpRows>(memory.q, first, at.first_row(), except);
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      const int row = Scores::row_of_half(h);
      if (isa::lane() % 4 == 0 && out.stores(at.first_row() + row, row, except))
        out.store_lse(at.first_row() + row, finished.lse[h]);
    }
  }

  // Attention of the rows. Where a result is not finite the tiles are run again without the values
  // that are not: that is the answer for rows that do not see them. The others get theirs pair by
  // pair. Finite data never pay.
  TS_DEVICE void compute() {
    u32 odd = 0, still_odd = 0;
    for (bool scrubbing = false;; scrubbing = true) {
      attend(Place<C>(p, isa::again(isa::block())), scrubbing);
      still_odd = odd_rows();
      if (scrubbing || !isa::any_in_block(still_odd != 0)) break;
      odd = still_odd;
    }
    const Place<C> at(p, isa::again(isa::block()));
    const u32 wrong = still_odd | lost_rows(at);
    store(at, wrong);
    if (!(odd | wrong)) return;
    isa::sync_warp();
    for (int r = 0; r < C::kWarpRows; ++r)
      if ((odd | wrong) >> r & 1 && at.first_row() + r < at.s.queries)
        CarefulRow<C>(at.head(), at.first_row() + r).compute(at.out(), wrong >> r & 1);
  }
};

// The grid: tiles of queries, heads, sequences; where queries are packed, one sequence more, whose
// blocks clear the rows that belong to none.
template <class C> TS_DEVICE void forward(const ForwardParams& p) {
  using T = typename C::T;
  const Index3 block = isa::block();
  if (block.z == p.lengths.batch) {
    const Sequence none;
    const Output<T> out{p, none, block.y};
    if (block.x == 0) out.clear(rows_before(p.lengths), C::kThreads);
    if (block.x == 0) out.clear(rows_after(p.lengths), C::kThreads);
    return;
  }
  const Place<C> at(p, block);
  const Range slots = Range{i64(at.tile) * C::kTileQ, i64(at.tile + 1) * C::kTileQ};
  const Range spare = Range{at.s.queries, at.s.slots} & slots;
  at.out().clear(spare, C::kThreads);
  if (!at.work.rows.empty()) Warp<C>(p).compute();
}

}  // namespace tessera::device
