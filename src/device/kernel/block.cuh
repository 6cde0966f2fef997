// What forward kernels share: which rows a block and a warp have, scores, the judgement of a
// result, its storage, and the grid.
#pragma once
#include "device/attention/careful.cuh"
#include "device/attention/carry.cuh"
#include "device/attention/pairs.cuh"
#include "device/attention/score.cuh"
#include "device/attention/state.cuh"
#include "device/attention/store.cuh"
#include "device/params.cuh"
#include "device/policy.cuh"

namespace tessera::device {

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

// Rows of a warp, as bits, of which each lane knows one of each half.
template <int halves> TS_DEVICE u32 rows_where(const bool (&is)[halves]) {
  bool some = false;
  TS_UNROLL for (int h = 0; h < halves; ++h) some = some || is[h];
  if (!isa::any(some)) return 0;
  u32 rows = 0;
  TS_UNROLL for (int r = 0; r < 8 * halves;
                 ++r) if (isa::any(isa::lane() / 4 == r % 8 && is[r / 8])) rows |= 1u << r;
  return rows;
}

// The blocks of the sequence that is one too many clear the rows of packed queries that belong to
// none.
template <class C> TS_OUTLINE void clear_rest(const ForwardParams& p, Index3 at) {
  const Sequence none;
  const Output<typename C::T> out{p, none, at.y};
  if (at.x > 0) return;
  out.clear(rows_before(p.lengths), C::kThreads);
  out.clear(rows_after(p.lengths), C::kThreads);
}

// 16 rows of a warp: all columns of values, or those that it has of them.
template <class C> struct WarpRows {
  using T = typename C::T;
  using Scores = Sums<C::kTileK>;

  const ForwardParams& p;
  const Head& head;
  const Work<C>& work;
  Scores s;
  State<C::kColumns> state;

  TS_DEVICE WarpRows(const Head& h, const Work<C>& w) : p(h.p), head(h), work(w) {}

  TS_DEVICE int first_row() const { return isa::warp() / C::kSharing * 16; }
  TS_DEVICE int first_column() const { return isa::warp() % C::kSharing * C::kColumns; }
  TS_DEVICE i64 query(int e) const { return work.rows.begin + first_row() + Scores::row(e); }
  TS_DEVICE i64 row_of(int e) const { return work.rows.begin + first_row() + state.o.row(e); }

  // Scores of pairs as the softmax takes them; -inf where they are hidden.
  TS_DEVICE void score(int step) {
    const Range keys{work.key(step), work.key(step) + C::kTileK};
    const Range mine{work.rows.begin + first_row(), work.rows.begin + first_row() + 16};
    const bool all_seen = (head.s.keys & head.s.band.seen_by_all(mine)).contains(keys);
    if (all_seen && !p.score.adjusts && !p.score.mask.data) return;
    const TilePairs<Scores> pairs(head, mine, keys);
    if (p.score.adjusts) pairs.adjust(s);
    pairs.hide(s);
  }

  // Rows whose sums are not finite.
  TS_DEVICE u32 odd_rows() const {
    bool odd[2] = {false, false};
    TS_UNROLL for (int e = 0; e < state.o.size; ++e) odd[state.o.half(e)] =
        odd[state.o.half(e)] || !(isa::abs(state.o[e]) < kInfinity);
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
                   e += 2) if (out.stores(row_of(e), state.o.row(e), except))
        out.store_pair(row_of(e), first_column() + state.o.column(e), state.o[e], state.o[e + 1]);
    TS_UNROLL for (int h = 0; h < 2; ++h) if (isa::lane() % 4 == 0 && first_column() == 0 &&
                                              query(2 * h) < head.s.queries &&
                                              !(except >> Scores::row(2 * h) & 1))
        out.store_lse(query(2 * h), finished.lse[h]);
  }
};

// Rows of a warp from `first` on, pair by pair: all columns of those that are wrong, and of the
// other odd ones those that see a value that is not finite. Out of line, for few calls need it.
template <class C>
TS_OUTLINE void careful_rows(const ForwardParams& p, i64 first, int column, u32 odd, u32 wrong) {
  const Index3 at = isa::block();
  const Sequence s(p, at.z);
  const Head head{p, s, at.y};
  for (int r = 0; r < C::kWarpRows; ++r)
    if ((odd | wrong) >> r & 1 && first + r < s.queries)
      CarefulRow<C>(head, first + r, column).compute({p, s, at.y}, wrong >> r & 1);
}

// Attention of a warp's rows. Where a result is not finite the tiles are run again without the
// values that are not: that is the answer for rows that do not see them. The others get theirs pair
// by pair. Finite data never pay.
template <class C, class Warp>
TS_DEVICE void compute(Warp& warp, const Output<typename C::T>& out) {
  u32 odd = 0, still_odd = 0;
  for (bool scrubbing = false;; scrubbing = true) {
    warp.attend(scrubbing);
    still_odd = warp.odd_rows();
    if (scrubbing || !isa::any_in_block(still_odd != 0)) break;
    odd = still_odd;
  }
  const u32 wrong = still_odd | warp.lost_rows();
  warp.store(out, wrong);
  if (!(odd | wrong)) return;
  isa::sync_warp();
  careful_rows<C>(warp.p, warp.work.rows.begin + warp.first_row(), warp.first_column(), odd, wrong);
}

// The grid: tiles of queries, heads, sequences; where queries are packed, one sequence more, whose
// blocks clear the rows that belong to none.
template <class C, template <class> class Warp>
TS_DEVICE void compute_block(const ForwardParams& p) {
  using T = typename C::T;
  const Index3 at = isa::block();
  if (at.z == p.lengths.batch) return clear_rest<C>(p, at);
  const Sequence s(p, at.z);
  const Head head{p, s, at.y};
  const Output<T> out{p, s, at.y};
  const Work<C> work(s, at.x);
  const Range slots = Range{i64(at.x) * C::kTileQ, i64(at.x + 1) * C::kTileQ} & Range{0, s.slots};
  out.clear(slots & Range{s.queries, s.slots}, C::kThreads);
  if (work.rows.empty()) return;
  Warp<C> warp(head, work);
  compute<C>(warp, out);
}

}  // namespace tessera::device
