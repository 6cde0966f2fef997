// The 16 query rows of a warp: which of them the tensor core could not compute, and their results.
#pragma once
#include <isa/math.cuh>

#include "device/attention/score.cuh"
#include "device/attention/store.cuh"
#include "device/tile/warpgroup.cuh"

namespace tessera::device {

struct WarpRows {
  const Head& head;
  i64 first;

  // Of element e of a lane's sums; its half h is that of element 2h.
  TS_DEVICE i64 query(int e) const { return first + WarpgroupSums<8>::row(e); }
  TS_DEVICE bool exists(int e) const { return query(e) < head.s.queries; }

  // As bits; each lane knows its own two rows.
  TS_DEVICE u32 where(const bool (&is)[2]) const {
    u32 rows = 0;
    for (int r = 0; r < 16; ++r)
      if (isa::any(isa::lane() / 4 == r % 8 && is[r / 8])) rows |= 1u << r;
    return rows;
  }
  // Rows whose sums are not finite.
  template <class S> TS_DEVICE u32 odd(const S& state) const {
    bool is[2] = {false, false};
    TS_UNROLL for (int e = 0; e < state.o.size; ++e) is[WarpgroupSums<8>::half(e)] =
        is[WarpgroupSums<8>::half(e)] || !(isa::abs(state.o[e]) < kInfinity);
    TS_UNROLL for (int h = 0; h < 2; ++h) is[h] =
        (is[h] || !(state.l[h] < kInfinity)) && exists(2 * h);
    return where(is);
  }
  // Rows whose largest score is lost: it is so large that 2^(unit S - unit m) is off by factors, or
  // no key was found where the band shows some and a score may have overflowed.
  template <class S> TS_DEVICE u32 lost(const S& state) const {
    bool is[2];
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      const bool known = isa::abs(state.m[h] * head.p.score.unit) < 0x1p24f;
      const bool empty = (head.s.keys & head.s.band.seen_by(query(2 * h))).empty();
      is[h] = exists(2 * h) && !known && !(state.m[h] == -kInfinity && empty);
    }
    return where(is);
  }

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
