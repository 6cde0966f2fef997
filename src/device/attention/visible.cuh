// Which scores of a tile are visible, in 32 bits: keys are counted from the first one of step 0.
#pragma once
#include "device/attention/band.cuh"

namespace tessera::device {

// Of a warp's `rows`. A lane has one row of each half; those are eight rows apart, and so are their
// bands.
template <int rows> struct Visible {
  int end;        // keys that exist and that some row of the block sees
  int low, high;  // what the band shows to the lane's first row

  TS_DEVICE Visible(const Band& band, Range keys, i64 first_key, i64 first_row) {
    const Range of_lane = band.seen_by(first_row + lane_row());
    end = near(keys.end - first_key);
    low = near(of_lane.begin - first_key);
    high = near(of_lane.end - first_key);
  }

  // Scores of the keys from `first` on become -inf where they are hidden. Most tiles that the band
  // cuts, it cuts at one side.
  template <class S> TS_DEVICE void hide(S& s, int first) const {
    const int of_last = low - lane_row() + rows - 1, of_first = high - lane_row();
    if (first < of_last) hide_before(s, first);
    const int last = first + 2 * s.kOfBlock;
    if (last > end || last > of_first) hide_from_end(s, first);
  }

 private:
  TS_DEVICE static int lane_row() { return isa::lane() / 4; }

  template <class S> TS_DEVICE void hide_before(S& s, int first) const {
    const int band = isa::again(low);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int from = band + 8 * s.half(e);
      if (s.column_in_lane(e) < from - first - s.lane_column()) s[e] = -kInfinity;
    }
  }
  template <class S> TS_DEVICE void hide_from_end(S& s, int first) const {
    const int band = isa::again(high);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int of_row = band + 8 * s.half(e), to = of_row < end ? of_row : end;
      if (s.column_in_lane(e) >= to - first - s.lane_column()) s[e] = -kInfinity;
    }
  }
};

}  // namespace tessera::device
