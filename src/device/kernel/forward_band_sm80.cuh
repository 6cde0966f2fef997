// The kernel of forward_sm80.cuh for the calls that most are: a band, lengths, packed sequences,
// and in a flavour of its own a mask or a bias. What it leaves out are registers, and with them a
// warp has 32 rows. Each tile of keys and values that it reads from shared memory serves twice as
// many products.
//
// One barrier a step: keys and values have landed for everybody, and everybody has left the stage
// that the next copies overwrite. Within a step warps go their own ways: one multiplies while
// another takes exponents.
#pragma once
#include <isa/copy.cuh>

#include "device/attention/careful.cuh"
#include "device/attention/copies.cuh"
#include "device/attention/judge.cuh"
#include "device/attention/pair_stream.cuh"
#include "device/attention/state.cuh"
#include "device/attention/visible.cuh"
#include "device/kernel/memory.cuh"
#include "device/kernel/work.cuh"
#include "device/policy.cuh"
#include "device/tile/multiply.cuh"

namespace tessera::device {

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
  TS_DEVICE Visible<C::kWarpRows> visible() const {
    return {s.band, work.span, work.first, first_row()};
  }
};

// What a warp does: its rows, 16 to a block of sums.
template <class C> struct BandWarp {
  using T = typename C::T;
  using Scores = Sums<C::kTileK, C::kBlocks>;
  static constexpr int kHalves = Scores::kHalves;

  const ForwardParams& p;
  Memory<C> memory;
  Scores s;
  Weights<C::kTileK, C::kBlocks> weights;
  State<C::kDim, C::kBlocks> state;

  TS_DEVICE explicit BandWarp(const ForwardParams& params) : p(params) {}

  // `scrubbing`: without the values that are not finite.
  TS_DEVICE void attend(const Place<C>& at, bool scrubbing) {
    const auto visible = at.visible();
    KeyStream<C> stream(at.head(), at.work.span, at.work.first, scrubbing);
    const PairStream<C> pairs(at.head(), memory.shown(), at.work.rows, at.work.span, at.work.first);
    const int rows = isa::warp() * C::kWarpRows, end = visible.end;
    stream.start_queries(memory.q, at.head(), at.work.rows.begin);
    const auto start = [&](int step, int key) {
      if (key < end) {
        stream.start(memory.keys(step), memory.values(step), end - key);
        pairs.start(memory.pairs(step), key);
      }
      isa::copy_commit();
    };
    int first = pairs.shown_from(0);
    stream.advance(first);
    start(0, first);
    state.clear();
    for (int step = 0; first < end; ++step) {
      isa::copy_wait<0>();
      isa::sync_block();
      const int next = pairs.shown_from(first + C::kTileK);
      stream.advance(next - first);
      start(step + 1, next);
      multiply_transposed<T>(s, memory.q, rows, memory.keys(step));  // S = Q K^T
      pairs.apply(s, memory.pairs(step), scrubbing);
      visible.hide(s, first);
      state.absorb(s, p.score.unit);  // P = exp(S - m)
      round<T>(weights, s);
      accumulate<T>(state.o, weights, memory.values(step));  // O += P V
      first = next;
    }
    isa::copy_wait<0>();
    state.count_all();
  }

  // All rows but those of `except`.
  TS_DEVICE void store(const Place<C>& at, u32 except) {
    const Output<T> out = at.out();
    const auto finished = state.finish(at.head().sink());
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

  // What is left of the rows after their sums: `odd` are those that were not finite, `still_odd`
  // those that are not without the values that are not.
  TS_DEVICE void close(u32 odd, u32 still_odd) {
    const Place<C> at(p, place_of(p, isa::block_again()));
    const u32 wrong = still_odd | lost_rows(state, at.head(), at.first_row());
    store(at, wrong);
    if (!(odd | wrong)) return;
    isa::sync_warp();
    careful_rows<C>(p, at.first_row(), 0, odd, wrong);
  }
};

// The same grid as that of the other kernels.
//
// Where a result is not finite the tiles are run again without the values that are not: that is the
// answer for rows that do not see them. The others get theirs pair by pair. Finite data never pay.
template <class C> TS_DEVICE void forward_band(const ForwardParams& p) {
  BandWarp<C> warp(p);
  u32 odd = 0;
  bool scrubbing = false;
  for (;; scrubbing = true) {
    const Index3 block = place_of(p, isa::block_again());
    if (block.z >= p.lengths.batch) return clear_rest<C>(p);
    const Place<C> at(p, block);
    if (at.s.queries < at.s.slots) clear_spare<C>(p, at.tile);
    if (at.work.rows.empty()) return;
    warp.attend(at, scrubbing);
    odd = odd_rows(warp.state);
    if (scrubbing || !isa::any_in_block(odd != 0)) break;
    // No register keeps them while the steps run. Each lane notes them for itself: if one did for
    // all, ptxas would no longer know that lanes take every step together.
    isa::store(warp.memory.note(), odd);
  }
  warp.close(scrubbing ? isa::load_word(warp.memory.note()) : 0, odd);
}

}  // namespace tessera::device
