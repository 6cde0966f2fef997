// What the kernels of any options share: the rows of a warp, scores, storage.
#pragma once
#include "device/attention/careful.cuh"
#include "device/attention/judge.cuh"
#include "device/attention/pairs.cuh"
#include "device/attention/score.cuh"
#include "device/attention/state.cuh"
#include "device/attention/store.cuh"
#include "device/kernel/finished.cuh"
#include "device/kernel/work.cuh"
#include "device/params.cuh"
#include "device/policy.cuh"

namespace tessera::device {

// Weights in parts are 2^kRoom times as large as others, since float16 has little below 1: the last
// part of a small weight would be lost. What a row may keep of them after dropout is small ones.
template <class C, class T = typename C::T> constexpr int kRoom = 0;
template <class C>
  requires(C::kWeighing == Weighing::kExact)
constexpr int kRoom<C, Float16> = 7;

// 16 rows of a warp: all columns of values, or those that it has of them.
template <class C> struct WarpRows {
  using T = typename C::T;
  using Scores = Sums<C::kTileK>;

  const ForwardParams& p;
  const Head& head;
  const Work<C>& work;
  Scores s;
  State<C::kColumns, 1, kRoom<C>> state;

  TS_DEVICE WarpRows(const Head& h, const Work<C>& w) : p(h.p), head(h), work(w) {}

  TS_DEVICE int first_row() const { return isa::warp() / C::kSharing * 16; }
  TS_DEVICE int first_column() const { return isa::warp() % C::kSharing * C::kColumns; }

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

  // All rows but those of `except`.
  TS_DEVICE void store(const Output<T>& out, u32 except) {
    const auto finished = state.finish(head.sink());
    if (p.dropout.threshold != 0) state.o.scale(p.dropout.factor);
    const FinishedRows<C> rows;
    rows.put(state.o, finished.lse);
    rows.store(out, head, work.rows.begin + first_row(), first_column(), except);
  }
};

// Attention of a warp's rows. Where a result is not finite the tiles are run again without the
// values that are not: that is the answer for rows that do not see them. The others get theirs pair
// by pair. Finite data never pay.
template <class C, class Warp>
TS_DEVICE void compute(Warp& warp, const Output<typename C::T>& out) {
  u32 odd = 0, still_odd = 0;
  for (bool scrubbing = false;; scrubbing = true) {
    warp.attend(scrubbing);
    still_odd = odd_rows(warp.state);
    // After the last pass too: rows leave through the tiles, which every warp must be done with.
    if (!isa::any_in_block(still_odd != 0) || scrubbing) break;
    odd = still_odd;
  }
  const i64 first = warp.work.rows.begin + warp.first_row();
  const u32 wrong = still_odd | lost_rows(warp.state, warp.head, first);
  warp.store(out, wrong);
  if (!(odd | wrong)) return;
  isa::sync_warp();
  careful_rows<C>(warp.p, first, warp.first_column(), odd, wrong);
}

template <class C, template <class> class Warp>
TS_DEVICE void compute_block(const ForwardParams& p) {
  using T = typename C::T;
  const Index3 at = place_of_block(p);
  if (at.z >= p.lengths.batch) return clear_rest<C>(p);
  const Sequence s(p, at.z);
  const Head head{p, s, at.y};
  const Output<T> out{p, s, at.y};
  const Work<C> work(s, at.x);
  if (s.queries < s.slots) clear_spare<C>(p, at.x);
  if (work.rows.empty()) return;
  Warp<C> warp(head, work);
  compute<C>(warp, out);
}

}  // namespace tessera::device
