// Which rows of a warp the tensor core could not compute. Sums are laid out as those of
// mma.m16n8k16 and wgmma are: of each half, eight rows, a lane has one row.
#pragma once
#include <isa/math.cuh>

#include "device/attention/score.cuh"

namespace tessera::device {

// As bits; each lane knows its own.
template <int halves> TS_DEVICE u32 rows_where(const bool (&is)[halves]) {
  bool some = false;
  TS_UNROLL for (int h = 0; h < halves; ++h) some = some || is[h];
  if (!isa::any(some)) return 0;
  u32 rows = 0;
  TS_UNROLL for (int r = 0; r < 8 * halves; ++r) {
    if (isa::any(isa::lane() / 4 == r % 8 && is[r / 8])) rows |= 1u << r;
  }
  return rows;
}

// Rows whose sums are not finite: 0 times such a sum is not 0.
template <class S> TS_DEVICE u32 odd_rows(const S& state) {
  float zero[S::kHalves];
  TS_UNROLL for (int h = 0; h < S::kHalves; ++h) zero[h] = 0 * state.l[h];
  TS_UNROLL for (int e = 0; e < state.o.size; ++e) {
    const int h = state.o.half(e);
    zero[h] = isa::fma(0, state.o[e], zero[h]);
  }
  bool odd[S::kHalves];
  TS_UNROLL for (int h = 0; h < S::kHalves; ++h) odd[h] = zero[h] != 0;
  return rows_where(odd);
}

// Rows whose largest score is lost: it is so large that 2^(unit S - unit m) is off by factors, or
// no key was found where the band shows some and a score may have overflowed. `first` is the query
// of the warp's first row.
template <class S> TS_DEVICE u32 lost_rows(const S& state, const Head& head, i64 first) {
  bool lost[S::kHalves], some = false;
  TS_UNROLL for (int h = 0; h < S::kHalves; ++h) {
    lost[h] = !(isa::abs(state.level(h)) < 0x1p24f);
    some = some || lost[h];
  }
  if (!isa::any(some)) return 0;
  TS_UNROLL for (int h = 0; h < S::kHalves; ++h) {
    const i64 i = first + isa::lane() / 4 + 8 * h;
    const bool empty = (head.s.keys & head.s.band.seen_by(i)).empty();
    lost[h] = lost[h] && !(state.level(h) == -kInfinity && empty);
  }
  return rows_where(lost);
}

}  // namespace tessera::device
