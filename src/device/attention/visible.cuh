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
  // Scores of the keys from `first` on become -inf where they are hidden. Most tiles that the band
  // cuts, it cuts at one side.
  template <class S> TS_DEVICE void hide(S& s, int first) const {
    if (whole_begin > first) hide_before(s, first);
    if (whole_end < first + 2 * s.kOfBlock) hide_from_end(s, first);
  }
  template <class S> TS_DEVICE void hide_before(S& s, int first) const {
    const int of_lane = isa::again(low);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int from = least(begin, of_lane, s.half(e)) - first - s.lane_column();
      if (s.column_in_lane(e) < from) s[e] = -kInfinity;
    }
  }
  template <class S> TS_DEVICE void hide_from_end(S& s, int first) const {
    const int of_lane = isa::again(high);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int to = most(end, of_lane, s.half(e)) - first - s.lane_column();
      if (s.column_in_lane(e) >= to) s[e] = -kInfinity;
    }
  }

 private:
  TS_DEVICE static int least(int key, int first_row, int half) {
    return key > first_row + 8 * half ? key : first_row + 8 * half;
  }
  TS_DEVICE static int most(int key, int first_row, int half) {
    return key < first_row + 8 * half ? key : first_row + 8 * half;
  }
};

}  // namespace tessera::device
