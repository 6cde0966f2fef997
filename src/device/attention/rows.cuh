// The results of 16 query rows of a warp, as a warpgroup holds them.
#pragma once
#include <isa/math.cuh>

#include "device/attention/score.cuh"
#include "device/attention/store.cuh"
#include "device/tile/warpgroup.cuh"

namespace tessera::device {

struct StoredRows {
  const Head& head;
  i64 first;

  // Of element e of a lane's sums; its half h is that of element 2h.
  TS_DEVICE i64 query(int e) const { return first + WarpgroupSums<8>::row(e); }
  TS_DEVICE bool exists(int e) const { return query(e) < head.s.queries; }

  // Rows that exist and are not among `except`, element by element.
  template <class T, class S>
  TS_DEVICE void store(const Output<T>& out, const S& state, u32 except) const {
    TS_UNROLL for (int e = 0; e < state.o.size; ++e) {
      const int column = WarpgroupSums<8>::column(e);
      if (is_stored(e, except) && column < head.p.value_dim)
        out.store(query(e), column, state.o[e]);
    }
  }
  template <class T>
  TS_DEVICE void store_lse(const Output<T>& out, const float (&lse)[2], u32 except) const {
    TS_UNROLL for (int h = 0; h < 2; ++h) if (isa::lane() % 4 == 0 && is_stored(2 * h, except))
        out.store_lse(query(2 * h), lse[h]);
  }

 private:
  TS_DEVICE bool is_stored(int e, u32 except) const {
    return exists(e) && !(except >> WarpgroupSums<8>::row(e) & 1);
  }
};

}  // namespace tessera::device
