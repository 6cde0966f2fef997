// Attention forward in float32 on ordinary multiply-adds: every NVIDIA GPU since Ampere.
//
// Rows, scores, softmax and edges are those of forward_sm80.cuh; the products are not. The tensor
// cores take float32 as TF32, and three products of halves would do for one, but they cut their
// sums off: docs/how/portable-forward.md counts what that costs.
//
// There is one buffer for keys and one for values, and each is filled while the other is used:
//
//   copies     Q K(0)   V(0)            K(1)        V(1)
//   step 0            | S   softmax   | O
//   step 1                                        | S   softmax   | O
#pragma once
#include "device/attention/dropout.cuh"
#include "device/attention/stream.cuh"
#include "device/kernel/block.cuh"
#include "device/tile/words.cuh"

namespace tessera::device {

template <class C> struct WordMemory {
  using Keys = WordTile<C::kTileK, C::kDim>;
  WordTile<C::kTileQ, C::kDim> q{isa::shared_base()};
  Keys k{Address(u32(q.base) + u32(C::kQueryBytes))};
  Keys v{Address(u32(k.base) + u32(C::kKeyBytes))};
};

template <class C> struct WordWarp : WarpRows<C> {
  using Rows = WarpRows<C>;
  using Rows::first_column, Rows::first_row, Rows::score;
  using Rows::p, Rows::head, Rows::work, Rows::s, Rows::state;

  WordMemory<C> memory;

  using Rows::Rows;

  TS_DEVICE void start_keys(int step) const {
    if (step < work.steps)
      fill<C::kThreads>(memory.k, keys_of<float>(head, work.span), work.key(step));
    isa::copy_commit();
  }
  TS_DEVICE void start_values(int step) const {
    fill<C::kThreads>(memory.v, values_of<float>(head, work.span), work.key(step));
    isa::copy_commit();
  }

  TS_DEVICE void attend(bool scrubbing) {
    state.clear();
    fill<C::kThreads>(memory.q, QueryRows<float>(head), work.rows.begin);
    start_keys(0);
    for (int step = 0; step < work.steps; ++step) {
      isa::copy_wait<0>();
      isa::sync_block();
      start_values(step);
      multiply_words_transposed(s, memory.q, first_row(), memory.k);  // S = Q K^T
      score(step);
      state.absorb(s, p.score.unit);  // P = exp(S - m)
      if (p.dropout.threshold != 0) drop_some(step);
      isa::copy_wait<0>();
      isa::sync_block();
      start_keys(step + 1);
      if (scrubbing) scrub_values();
      accumulate_words(state.o, s, memory.v, first_column());  // O += P V
    }
    isa::copy_wait<0>();
    state.count_all();
  }
  TS_DEVICE void drop_some(int step) {
    const Dropout dropout(p, head.s, head.head);
    drop(s, dropout.kept<C::kTileK>(work.rows.begin + first_row(), work.key(step)));
  }
  TS_DEVICE void scrub_values() const {
    scrub<float, C::kThreads>(memory.v);
    isa::sync_block();
  }
};

template <class C> TS_DEVICE void forward_f32(const ForwardParams& p) {
  compute_block<C, WordWarp>(p);
}

}  // namespace tessera::device
