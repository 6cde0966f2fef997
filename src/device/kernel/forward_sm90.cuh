// Attention forward for Hopper: one warpgroup feeds, the others multiply.
//
//   producer     K(0)   K(1) V(0)   K(2) V(1)  ...    copies into stages
//   consumer 0   S = Q K(0)^T   softmax   [S = Q K(1)^T, O += P V(0)] in flight   softmax   ...
//   consumer 1   the same half a step later: a lock lets one consumer issue at a time
//
// Everything asynchronous ends on a barrier: copies on `full` of their stage, multiplications on
// wgmma_wait, whose warpgroup then gives the stage back by `empty`.
#pragma once
#include <isa/mbarrier.cuh>
#include <isa/tensor_copy.cuh>
#include <isa/warpgroup.cuh>
#include <isa/wgmma.cuh>

#include "device/attention/careful.cuh"
#include "device/attention/judge.cuh"
#include "device/attention/overlapped_state.cuh"
#include "device/attention/rows.cuh"
#include "device/attention/score.cuh"
#include "device/attention/store.cuh"
#include "device/kernel/work.cuh"
#include "device/policy_sm90.cuh"
#include "device/tile/ring.cuh"
#include "device/tile/shared.cuh"
#include "device/tile/warpgroup.cuh"

namespace tessera::device::sm90 {

struct Params {
  ForwardParams call;
  TensorMap q, k, v;  // [batch, head, row, column]; tiles of 64 columns
  TensorMap out;      // tiles of 64 columns and 16 rows, if out_tiles
  bool out_tiles;
};

template <class C> struct Memory {
  Address query, query_full;
  Ring<C> keys, values;

  TS_DEVICE explicit Memory(Address base)
      : query(base),
        query_full(at(C::kBarriers)),
        keys{at(C::kQueryBytes), at(C::kBarriers + 8)},
        values{at(C::kQueryBytes + C::kStages * C::kKeyBytes),
               at(C::kBarriers + 8 + 16 * C::kStages)} {}
  TS_DEVICE Address at(int byte) const { return Address(u32(query) + u32(byte)); }
  TS_DEVICE void init() const {
    isa::mbarrier_init(query_full, 1, "query full");
    keys.init("keys full", "keys empty");
    values.init("values full", "values empty");
    isa::mbarrier_init_fence();
  }
};

// The issue lock: consumers take turns, so that one multiplies while another takes exponentials.
struct Turn {
  int mine, next;
  TS_DEVICE explicit Turn(int consumer) : mine(1 + consumer), next(1 + (consumer ^ 1)) {}
  TS_DEVICE void take() const { isa::barrier_sync(mine, 256); }
  TS_DEVICE void pass() const { isa::barrier_arrive(next, 256); }
};

// One thread of the first warpgroup.
template <class C> struct Producer {
  const Params& p;
  const Head& head;
  const Work<C>& work;
  const Memory<C>& memory;

  TS_DEVICE void load_query() const {
    const Sequence& s = head.s;
    isa::mbarrier_arrive_expect(memory.query_full, C::kQueryBytes);
    load_panels<C::kPanels>(memory.query, C::kPanelOfQueries, p.q, memory.query_full,
                            {int(s.q_begin + work.rows.begin), head.head, int(s.q_batch)});
  }
  TS_DEVICE TilePlace place(int step) const {
    const Sequence& s = head.s;
    return {int(s.k_begin + work.key(step)), head.head / p.call.group, int(s.k_batch)};
  }
  // In the order of need: step i multiplies K(i), then V(i - 1).
  TS_DEVICE void feed(int pass) const {
    const int n = pass * work.steps;
    for (int step = 0; step <= work.steps; ++step) {
      if (step < work.steps) memory.keys.fill(n + step, p.k, place(step));
      if (step > 0) memory.values.fill(n + step - 1, p.v, place(step - 1));
    }
  }
};

template <class C>
TS_DEVICE void produce(const Params& p, const Head& head, const Work<C>& work,
                       const Memory<C>& memory) {
  isa::role("producer");
  isa::registers_give<C::kGive>();
  const Producer<C> producer{p, head, work, memory};
  const bool feeds = isa::warp() == 0 && isa::elect();
  if (feeds && work.steps > 0) producer.load_query();
  if (feeds) producer.feed(0);
  isa::sync_warp();
  if (isa::any_in_block(false) && feeds) producer.feed(1);
}

// A warpgroup: 64 rows of queries.
template <class C> struct Consumer {
  using T = typename C::T;
  using Scores = WarpgroupSums<C::kTileK>;

  const Params& p;
  const Head& head;
  const Work<C>& work;
  const Memory<C>& memory;
  int index;
  Scores s;
  WarpgroupWeights<T, C::kTileK> weights;
  OverlappedState<C::kDim> state;

  TS_DEVICE Consumer(const Params& params, const Head& h, const Work<C>& w, const Memory<C>& m)
      : p(params), head(h), work(w), memory(m), index(isa::warpgroup() - 1) {}

  TS_DEVICE int first_row() const { return 64 * index + 16 * (isa::warp() % 4); }
  TS_DEVICE i64 query(int e) const { return work.rows.begin + first_row() + Scores::row(e); }

  // S = Q K^T, both K-major: 16 columns are 32 bytes of a panel's rows.
  TS_DEVICE void multiply_scores(int n) {
    const Address rows = Address(u32(memory.query) + u32(64 * 128 * index));
    const u64 q = isa::matrix(rows, 16, 1024, Swizzle::k128B);
    const u64 k = isa::matrix(memory.keys.tile(n), 16, 1024, Swizzle::k128B);
    isa::wgmma_fence(s);
    TS_UNROLL for (int d = 0; d < C::kDim / 16; ++d) isa::wgmma<T, Major::kK, Major::kK>(
        s, isa::advance(q, u32(d / 4 * C::kPanelOfQueries + d % 4 * 32)),
        isa::advance(k, u32(d / 4 * C::kPanelOfKeys + d % 4 * 32)), d > 0);
    isa::wgmma_commit(s);
  }
  // O += P V; columns of V are contiguous: 16 keys are 2048 bytes of a panel.
  TS_DEVICE void accumulate(int n) {
    const u64 v = isa::matrix(memory.values.tile(n), C::kPanelOfKeys, 1024, Swizzle::k128B);
    isa::wgmma_fence(state.o, weights);
    TS_UNROLL for (int k = 0; k < C::kTileK / 16; ++k) isa::wgmma<T, Major::kMN>(
        state.o, isa::step_of(weights, k), isa::advance(v, u32(2048 * k)), true);
    isa::wgmma_commit(state.o);
  }

  // -inf where a row does not see a key. What it sees of a tile is one range of columns.
  TS_DEVICE void hide(int step) {
    const Range tile{work.key(step), work.key(step) + C::kTileK};
    const i64 first = work.rows.begin + first_row();
    if ((head.s.keys & head.s.band.seen_by_all({first, first + 16})).contains(tile)) return;
    int begin[2], end[2];
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      const Range seen = head.s.keys & head.s.band.seen_by(query(2 * h)) & tile;
      begin[h] = int(seen.begin - tile.begin);
      end[h] = seen.empty() ? begin[h] : int(seen.end - tile.begin);
    }
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int column = Scores::column(e), h = Scores::half(e);
      if (column < begin[h] || column >= end[h]) s[e] = -kInfinity;
    }
  }
  TS_DEVICE void weigh(int step) {
    hide(step);
    state.absorb(s, p.call.score.unit);  // P = exp(S - m)
  }
  TS_DEVICE void round_weights() {
    weights.round(s);
    state.count(weights);
  }

  TS_DEVICE void attend() {
    const Turn turn(index);
    const int last = work.steps - 1;
    isa::mbarrier_wait(memory.query_full, 0);
    if (index == 1) turn.pass();
    memory.keys.wait(0);
    turn.take();
    multiply_scores(0);
    if (index == 0 || last > 0) turn.pass();
    isa::wgmma_wait<0>(s);
    memory.keys.release(0);
    weigh(0);
    round_weights();
    for (int i = 1; i <= last; ++i) {
      memory.keys.wait(i);
      turn.take();
      multiply_scores(i);
      memory.values.wait(i - 1);
      accumulate(i - 1);
      if (index == 0 || i < last) turn.pass();
      isa::wgmma_wait<1>(s);
      memory.keys.release(i);
      weigh(i);
      isa::wgmma_wait<0>(state.o);
      memory.values.release(i - 1);
      state.rescale();
      round_weights();
    }
    memory.values.wait(last);
    accumulate(last);
    isa::wgmma_wait<0>(state.o);
    memory.values.release(last);
  }

  // Once more without the values that are not finite, one thing after the other.
  TS_DEVICE void attend_scrubbed() {
    state.clear();
    for (int i = 0; i < work.steps; ++i) {
      const int n = work.steps + i;
      memory.keys.wait(n);
      multiply_scores(n);
      isa::wgmma_wait<0>(s);
      memory.keys.release(n);
      weigh(i);
      state.rescale();
      round_weights();
      memory.values.wait(n);
      scrub_values(memory.values.tile(n));
      accumulate(n);
      isa::wgmma_wait<0>(state.o);
      memory.values.release(n);
    }
  }
  // All consumers together; the tensor core sees it.
  TS_DEVICE void scrub_values(Address tile) const {
    constexpr int kTogether = 128 * C::kConsumers;
    for (int i = isa::thread() - 128; i < C::kKeyBytes / 16; i += kTogether) {
      const Address at = Address(u32(tile) + u32(16 * i));
      const Vector4 v = isa::load(at);
      isa::store(at,
                 Vector4{scrubbed<T>(v.x), scrubbed<T>(v.y), scrubbed<T>(v.z), scrubbed<T>(v.w)});
    }
    isa::fence_async();
    isa::barrier_sync(3, kTogether);
  }

  // O through this warp's rows of the query tile, then by the copy engine.
  TS_DEVICE void store_tile() const {
    const int line = first_row() + isa::lane() % 16;
    TS_UNROLL for (int c = 0; c < C::kDim / 16; ++c) {
      const int chunk = c % 4 * 2 + isa::lane() / 16;
      const int at = c / 4 * C::kPanelOfQueries + line * 128 + (chunk ^ line % 8) * 16;
      u32 pairs[4];
      TS_UNROLL for (int i = 0; i < 4; ++i) pairs[i] =
          isa::pack<T>(state.o[8 * c + 2 * i], state.o[8 * c + 2 * i + 1]);
      isa::store_matrices(Address(u32(memory.query) + u32(at)),
                          Vector4{pairs[0], pairs[1], pairs[2], pairs[3]});
    }
    isa::fence_async();
    isa::sync_warp();
    if (!isa::elect()) return;
    const int row = int(head.s.q_begin + work.rows.begin) + first_row();
    TS_UNROLL for (int c = 0; c < C::kPanels; ++c) {
      const int at = c * C::kPanelOfQueries + first_row() * 128;
      isa::tensor_store(p.out, Address(u32(memory.query) + u32(at)),
                        Coordinates{64 * c, row, head.head, int(head.s.q_batch)});
    }
    isa::store_commit();
    isa::store_wait_read<0>();
  }

  // Rows whose result is not finite are run again without the values that are not: that is the
  // answer for rows that do not see them. The others get theirs pair by pair.
  TS_DEVICE void compute(const Output<T>& out) {
    if (work.steps > 0) attend();
    const StoredRows rows{head, work.rows.begin + first_row()};
    const u32 odd = odd_rows(state);
    if (isa::any_in_block(odd != 0)) attend_scrubbed();
    const u32 wrong = odd_rows(state) | lost_rows(state, head, rows.first);
    float lse[2];
    state.finish(head.sink(), lse);
    const bool whole = rows.first + 16 <= head.s.queries;
    if (p.out_tiles && whole && (odd | wrong) == 0)
      store_tile();
    else
      rows.store(out, state, wrong);
    rows.store_lse(out, lse, wrong);
    isa::sync_warp();
    if (odd | wrong) careful_rows<C>(p.call, rows.first, 0, odd, wrong);
  }
};

template <class C> TS_DEVICE void forward(const Params& p) {
  using T = typename C::T;
  const ForwardParams& call = p.call;
  const Index3 at = place_of_block(call);
  if (at.z >= call.lengths.batch) return clear_rest<C>(call);
  const Sequence s(call, at.z);
  const Head head{call, s, at.y};
  const Output<T> out{call, s, at.y};
  const Work<C> work(s, at.x);
  if (s.queries < s.slots) clear_spare<C>(call, at.x);
  if (work.rows.empty()) return;
  const Memory<C> memory(isa::shared_base());
  if (isa::thread() == 0) memory.init();
  isa::sync_block();
  if (isa::warpgroup() == 0) return produce<C>(p, head, work, memory);
  isa::role(isa::warpgroup() == 1 ? "consumer 0" : "consumer 1");
  isa::registers_take<C::kTake>();
  Consumer<C>(p, head, work, memory).compute(out);
}

}  // namespace tessera::device::sm90
