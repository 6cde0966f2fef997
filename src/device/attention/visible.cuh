// Which scores of a tile are visible, in 32 bits: keys are counted from the first one of step 0.
#pragma once
#include "device/attention/band.cuh"

namespace tessera::device {

TS_DEVICE int near(i64 x) {
  const i64 far = 1 << 30;
  return int(larger(-far, smaller(x, far)));
}

// Of a warp's rows. A lane has one row of each half; those are eight rows apart, and so are their
// bands.
struct Visible {
  int begin, end;              // keys that exist and that some row of the block sees
  int low, high;               // what the band shows to the lane's first row
  int whole_begin, whole_end;  // keys that every row sees

  // `lane_row`: of the lane's first row in `rows`.
  TS_DEVICE Visible(const Band& band, Range keys, i64 first_key, Range rows, int lane_row) {
    const Range of_lane = band.seen_by(rows.begin + lane_row);
    const Range whole = keys & band.seen_by_all(rows);
    begin = near(keys.begin - first_key);
    end = near(keys.end - first_key);
    low = near(of_lane.begin - first_key);
    high = near(of_lane.end - first_key);
    whole_begin = near(whole.begin - first_key);
    whole_end = near(whole.end - first_key);
  }

  TS_DEVICE bool all(int first, int keys) const {
    return whole_begin <= first && first + keys <= whole_end;
  }
  // Scores of the keys from `first` on become -inf where they are hidden.
  template <class S> TS_DEVICE void hide(S& s, int first) const {
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int j = first + s.column(e), shift = 8 * s.half(e);
      if (j < begin || j >= end || j < low + shift || j >= high + shift) s[e] = -kInfinity;
    }
  }
};

}  // namespace tessera::device
