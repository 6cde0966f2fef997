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

#include "device/attention/dropout.cuh"
#include "device/attention/stream.cuh"
#include "device/kernel/block.cuh"
#include "device/kernel/memory.cuh"
#include "device/tile/columns.cuh"
#include "device/tile/multiply.cuh"
#include "device/tile/parts.cuh"

namespace tessera::device {

// Weights as they are multiplied with values.
template <class C, Weighing = C::kWeighing> struct Multiplied {
  using Type = Weights<C::kTileK>;
};
template <class C> struct Multiplied<C, Weighing::kExact> {
  using Type = Parts<typename C::T, C::kTileK>;
};
template <class C> using WeightsOf = typename Multiplied<C>::Type;

template <class C> struct Warp : WarpRows<C> {
  using T = typename C::T;
  using Rows = WarpRows<C>;
  using Rows::first_column, Rows::first_row, Rows::score;
  using Rows::p, Rows::head, Rows::work, Rows::s, Rows::state;

  Memory<C> memory;
  WeightsOf<C> weights;

  using Rows::Rows;

  TS_DEVICE Columns<typename Memory<C>::Keys, C::kColumns> values(int step) const {
    return {memory.values(step), first_column()};
  }

  TS_DEVICE void start(int step) const {
    if (step < work.steps)
      fill<C::kThreads>(memory.keys(step), keys_of<T>(head, work.span), work.key(step));
    isa::copy_commit();
    if (step < work.steps)
      fill<C::kThreads>(memory.values(step), values_of<T>(head, work.span), work.key(step));
    isa::copy_commit();
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
};

template <class C> TS_DEVICE void forward(const ForwardParams& p) { compute_block<C, Warp>(p); }

}  // namespace tessera::device
