// Visible keys around the diagonal: full, causal and window are three values of one type.
#pragma once
#include <isa/memory.cuh>

#include "device/params.cuh"

namespace tessera::device {

TS_DEVICE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
TS_DEVICE i64 larger(i64 a, i64 b) { return a < b ? b : a; }

// In 32 bits: what lies further away than any tile matters no more.
TS_DEVICE int near(i64 x) {
  const i64 far = 1 << 30;
  return int(larger(-far, smaller(x, far)));
}

struct Range {
  i64 begin, end;

  TS_DEVICE bool empty() const { return begin >= end; }
  TS_DEVICE bool contains(i64 i) const { return begin <= i && i < end; }
  TS_DEVICE bool contains(Range r) const { return begin <= r.begin && r.end <= end; }
  TS_DEVICE Range operator&(Range r) const { return {larger(begin, r.begin), smaller(end, r.end)}; }
};

// Unbounded is 2^60: sums of a few of these and of any index stay within 64 bits.
struct Band {
  i64 left, right, offset;

  // The keys that query i sees.
  TS_DEVICE Range seen_by(i64 i) const { return {i + offset - left, i + offset + right + 1}; }
  // The keys that some of the rows see, and those that each of them sees.
  TS_DEVICE Range seen_by_any(Range rows) const {
    return {rows.begin + offset - left, rows.end + offset + right};
  }
  TS_DEVICE Range seen_by_all(Range rows) const {
    return {rows.end - 1 + offset - left, rows.begin + offset + right + 1};
  }
};

}  // namespace tessera::device
