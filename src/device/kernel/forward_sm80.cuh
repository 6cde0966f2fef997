// Attention forward on mma.m16n8k16 and cp.async: every NVIDIA GPU since Ampere.
//
// A block takes a tile of queries of one head, a warp 16 rows of it. Tiles of keys and values come
// through a ring of stages; the copies of step i + 1 run beside the arithmetic of step i:
//
//   copies     Q K(0) V(0)   K(1) V(1)        K(2) V(2)        ...
//   step 0                   S   softmax   O
//   step 1                                 |  S   softmax   O
//
// Two barriers a step: keys have landed for everybody (and everybody has left the stage that the
// next copies overwrite), values have landed for everybody.
#pragma once
#include <isa/copy.cuh>

#include "device/attention/careful.cuh"
#include "device/attention/carry.cuh"
#include "device/attention/dropout.cuh"
#include "device/attention/score.cuh"
#include "device/attention/state.cuh"
#include "device/attention/store.cuh"
#include "device/attention/stream.cuh"
#include "device/params.cuh"
#include "device/policy.cuh"
#include "device/tile/columns.cuh"
#include "device/tile/multiply.cuh"
#include "device/tile/parts.cuh"
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
  TS_DEVICE i64 key(int step) const { return first + i64(step) * C::kTileK; }
};

// Weights as they are multiplied with values.
template <class C, Weighing = C::kWeighing> struct Multiplied {
  using Type = Weights<C::kTileK>;
};
template <class C> struct Multiplied<C, Weighing::kExact> {
  using Type = Parts<typename C::T, C::kTileK>;
};
template <class C> using WeightsOf = typename Multiplied<C>::Type;

// What a warp does: 16 rows, all columns of values or those that it has of them.
template <class C> struct Warp {
  using T = typename C::T;
  using Scores = Sums<C::kTileK>;

  const ForwardParams& p;
  const Head& head;
  const Work<C>& work;
  Memory<C> memory;
  Scores s;
  WeightsOf<C> weights;
  State<C::kColumns> state;

  TS_DEVICE Warp(const Head& h, const Work<C>& w) : p(h.p), head(h), work(w) {}

  TS_DEVICE int first_row() const { return isa::warp() / C::kSharing * 16; }
  TS_DEVICE int first_column() const { return isa::warp() % C::kSharing * C::kColumns; }
  TS_DEVICE Columns<typename Memory<C>::Keys, C::kColumns> values(int step) const {
    return {memory.values(step), first_column()};
  }
  TS_DEVICE i64 query(int e) const { return work.rows.begin + first_row() + Scores::row(e); }

  TS_DEVICE void start(int step) const {
    if (step < work.steps)
      fill<C::kThreads>(memory.keys(step), keys_of<T>(head, work.span), work.key(step));
    isa::copy_commit();
    if (step < work.steps)
      fill<C::kThreads>(memory.values(step), values_of<T>(head, work.span), work.key(step));
    isa::copy_commit();
  }

  // Scores of pairs as the softmax takes them; -inf where they are hidden.
  TS_DEVICE void score(int step) {
    const Range keys{work.key(step), work.key(step) + C::kTileK};
    const Range mine{work.rows.begin + first_row(), work.rows.begin + first_row() + 16};
    const bool all_seen = (head.s.keys & head.s.band.seen_by_all(mine)).contains(keys);
    if (all_seen && !p.score.adjusts && !p.score.mask.data) return;
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const i64 i = query(e), j = keys.begin + Scores::column(e);
      if (i >= head.s.queries || !head.sees(i, j))
        s[e] = -kInfinity;
      else if (p.score.adjusts)
        s[e] = head.adjusted(s[e] * float(p.score.scale), i, j);
    }
  }

  TS_DEVICE void attend(bool scrubbing) {
    state.clear();
    fill<C::kThreads>(memory.q, QueryRows<T>(head), work.rows.begin);
    start(0);
    for (int step = 0; step < work.steps; ++step) {
      isa::copy_wait<1>();
      isa::sync_block();
      start(step + 1);
      multiply_transposed<T>(s, memory.q, first_row(), memory.keys(step));  // S = Q K^T
      score(step);
      state.absorb(s, p.score.unit);  // P = exp(S - m)
      round<T>(weights, s);
      state.template count<T>(weights);
      if (p.dropout.threshold != 0) drop_some(step);
      isa::copy_wait<2>();
      isa::sync_block();
      if (scrubbing) scrub_values(step);
      accumulate<T>(state.o, weights, values(step));  // O += P V
    }
    isa::copy_wait<0>();
  }
  // O misses what dropout removes; the sums that divide it do not.
  TS_DEVICE void drop_some(int step) {
    const Dropout dropout(p, head.s, head.head);
    drop(weights, dropout.kept<C::kTileK>(work.rows.begin + first_row(), work.key(step)));
  }
  TS_DEVICE void scrub_values(int step) const {
    scrub<T, C::kThreads>(memory.values(step));
    isa::sync_block();
  }

  // Rows of this warp, as bits, of which each lane knows its own two.
  TS_DEVICE u32 rows_where(const bool (&is)[2]) const {
    u32 rows = 0;
    for (int r = 0; r < 16; ++r)
      if (isa::any(isa::lane() / 4 == r % 8 && is[r / 8])) rows |= 1u << r;
    return rows;
  }

  // Rows whose sums are not finite.
  TS_DEVICE u32 odd_rows() const {
    bool odd[2] = {false, false};
    TS_UNROLL for (int e = 0; e < state.o.size; ++e) odd[Scores::half(e)] =
        odd[Scores::half(e)] || !(isa::abs(state.o[e]) < kInfinity);
    TS_UNROLL for (int h = 0; h < 2; ++h) odd[h] =
        (odd[h] || !(state.l[h] < kInfinity)) && query(2 * h) < head.s.queries;
    return rows_where(odd);
  }
  // Rows whose largest score is lost: it is so large that 2^(unit S - unit m) is off by factors,
  // or no key was found where the band shows some and a score may have overflowed.
  TS_DEVICE u32 lost_rows() const {
    bool lost[2];
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      const i64 i = query(2 * h);
      const bool known = isa::abs(state.m[h] * p.score.unit) < 0x1p24f;
      const bool empty = (head.s.keys & head.s.band.seen_by(i)).empty();
      lost[h] = i < head.s.queries && !known && !(state.m[h] == -kInfinity && empty);
    }
    return rows_where(lost);
  }

  // All rows but those of `except`.
  TS_DEVICE void store(const Output<T>& out, u32 except) {
    auto finished = state.finish(p.score, head.sink());
    if (p.dropout.threshold != 0) state.o.scale(p.dropout.factor);
    if (p.state_lse.data)
      Carried(head).merge_into(state.o, finished.lse, work.rows.begin + first_row(),
                               first_column());
    TS_UNROLL for (int e = 0; e < state.o.size;
                   e += 2) if (query(e) < head.s.queries && !(except >> Scores::row(e) & 1))
        out.store_pair(query(e), first_column() + Scores::column(e), state.o[e], state.o[e + 1]);
    TS_UNROLL for (int h = 0; h < 2; ++h) if (isa::lane() % 4 == 0 && first_column() == 0 &&
                                              query(2 * h) < head.s.queries &&
                                              !(except >> Scores::row(2 * h) & 1))
        out.store_lse(query(2 * h), finished.lse[h]);
  }

  // Attention of the rows. Where a result is not finite the tiles are run again without the values
  // that are not: that is the answer for rows that do not see them. The others get theirs pair by
  // pair. Finite data never pay.
  TS_DEVICE void compute(const Output<T>& out) {
    attend(false);
    const u32 odd = odd_rows();
    if (isa::any_in_block(odd != 0)) attend(true);
    const u32 wrong = odd_rows() | lost_rows();
    store(out, wrong);
    isa::sync_warp();
    for (int r = 0; r < 16; ++r)
      if ((odd | wrong) >> r & 1)
        CarefulRow<C>(head, work.rows.begin + first_row() + r, first_column())
            .compute(out, wrong >> r & 1);
  }
};

// The grid: tiles of queries, heads, sequences; where queries are packed, one sequence more, whose
// blocks clear the rows that belong to none.
template <class C> TS_DEVICE void forward(const ForwardParams& p) {
  using T = typename C::T;
  const Index3 at = isa::block();
  if (at.z == p.lengths.batch) {
    const Sequence none;
    const Output<T> out{p, none, at.y};
    if (at.x == 0) out.clear(rows_before(p.lengths), C::kThreads);
    if (at.x == 0) out.clear(rows_after(p.lengths), C::kThreads);
    return;
  }
  const Sequence s(p, at.z);
  const Head head{p, s, at.y};
  const Output<T> out{p, s, at.y};
  const Work<C> work(s, at.x);
  const Range slots = Range{i64(at.x) * C::kTileQ, i64(at.x + 1) * C::kTileQ} & Range{0, s.slots};
  out.clear(slots & Range{s.queries, s.slots}, C::kThreads);
  if (work.rows.empty()) return;
  Warp<C>(head, work).compute(out);
}

}  // namespace tessera::device
