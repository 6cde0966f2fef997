// Rows that are finished, on their way out. They go through shared memory, in the place of tiles
// that nobody reads any more, and leave it in a loop: a state to merge, two types and any strides
// for each register of a lane by itself were a third of the code of a kernel.
#pragma once
#include <isa/memory.cuh>

#include "device/attention/carry.cuh"
#include "device/attention/store.cuh"
#include "device/tile/multiply.cuh"

namespace tessera::device {

// 16 rows of a warp and the columns that it has of them; behind each row its lse.
template <class C> struct FinishedRows {
  using S = Sums<C::kColumns>;
  // In words. Pairs of eight rows lie in different banks.
  static constexpr int kRow = C::kColumns + 8;
  static_assert(4 * C::kTileQ * C::kSharing * kRow <= C::kSharedBytes);

  Address base{u32(isa::shared_base()) + u32(4 * 16 * kRow * isa::warp())};

  TS_DEVICE Address at(int row, int column) const {
    return Address(u32(base) + u32(4 * (row * kRow + column)));
  }
  TS_DEVICE float load(int row, int column) const {
    return __builtin_bit_cast(float, isa::load_word(at(row, column)));
  }
  TS_DEVICE void put(int row, int column, float x) const {
    isa::store(at(row, column), __builtin_bit_cast(u32, x));
  }

  // All warps of the block have left the tiles: from D = 256 on the rows reach into the values.
  TS_DEVICE void put(const S& o, const float (&lse)[2]) const {
    TS_UNROLL for (int e = 0; e < o.size; ++e) put(S::row(e), S::column(e), o[e]);
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      if (isa::lane() % 4 == 0) put(S::row(2 * h), C::kColumns, lse[h]);
    }
    isa::sync_warp();
  }

  // All of them but those of `except`; row 0 is that of query `first`, and `column` the first
  // column.
  template <class T>
  TS_DEVICE void store(const Output<T>& out, const Head& head, i64 first, int column,
                       u32 except) const {
    TS_ROLL for (int r = 0; r < 16; ++r) {
      if (out.stores(first + r, r, except)) store_row(out, head, first + r, r, column);
    }
  }

 private:
  template <class T>
  TS_DEVICE void store_row(const Output<T>& out, const Head& head, i64 i, int row,
                           int first) const {
    const Carried carried(head);
    const bool carries = head.p.state_lse.data;
    const Shares shares(load(row, C::kColumns), carries ? carried.lse(i) : -kInfinity);
    TS_ROLL for (int c = 2 * isa::lane(); c < C::kColumns && first + c < head.p.value_dim;
                 c += 64) {
      float x = load(row, c), y = load(row, c + 1);
      x = carried.merged(shares, x, i, first + c);
      if (first + c + 1 < head.p.value_dim) y = carried.merged(shares, y, i, first + c + 1);
      out.store_pair(i, first + c, x, y);
    }
    if (isa::lane() == 0 && first == 0) out.store_lse(i, shares.lse);
  }
};

}  // namespace tessera::device
