// The grid of every forward kernel: tiles of queries, heads, sequences; where queries are packed,
// one sequence more, whose blocks clear the rows that belong to none.
#pragma once
#include "device/attention/place.cuh"
#include "device/attention/sequence.cuh"
#include "device/attention/store.cuh"

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
    first = C::kAnyFirst ? span.begin : span.begin / C::kTileK * C::kTileK;
    steps = int((span.end - first + C::kTileK - 1) / C::kTileK);
  }
  TS_DEVICE i64 key(int step) const { return first + i64(step) * C::kTileK; }
};

// Rows of no sequence, by the blocks of the one that is too many; those behind it do nothing. Out
// of line, as is what follows: few calls need it, and the loops of a kernel need the registers.
template <class C> TS_OUTLINE void clear_rest(const ForwardParams& p) {
  const Index3 at = place_of_block(p);
  const Sequence none;
  const Output<typename C::T> out{p, none, at.y};
  if (at.x > 0 || at.z > p.lengths.batch || !p.lengths.queries_from.data) return;
  out.clear(rows_before(p.lengths), C::kThreads);
  out.clear(rows_after(p.lengths), C::kThreads);
}

// Rows of a tile that the sequence has room for and does not use.
template <class C> TS_OUTLINE void clear_spare(const ForwardParams& p, int tile) {
  const Index3 at = place_of_block(p);
  const Sequence s(p, at.z);
  const Range slots{i64(tile) * C::kTileQ, i64(tile + 1) * C::kTileQ};
  Output<typename C::T>{p, s, at.y}.clear(Range{s.queries, s.slots} & slots, C::kThreads);
}

}  // namespace tessera::device
