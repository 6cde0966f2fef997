// Visible keys around the diagonal: full, causal and window are three values of one type.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tessera::core {

struct Range {
  std::int64_t begin = 0, end = 0;

  bool empty() const { return begin >= end; }
  std::int64_t size() const { return end - begin; }
  bool contains(Range r) const { return begin <= r.begin && r.end <= end; }
  bool contains(std::int64_t i) const { return begin <= i && i < end; }
  friend Range operator&(Range a, Range b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }
  friend bool operator==(const Range&, const Range&) = default;
};

// Key j is visible to query i iff i + offset - left <= j <= i + offset + right.
struct Band {
  // Sums of a few of these and of any index stay within 64 bits: nothing saturates, nothing wraps.
  static constexpr std::int64_t kUnbounded = std::int64_t{1} << 60;
  static constexpr std::int64_t clamp(std::int64_t x) {
    return std::clamp(x, -kUnbounded, kUnbounded);
  }

  std::int64_t left = kUnbounded, right = kUnbounded, offset = 0;

  bool bounded() const { return left < kUnbounded || right < kUnbounded; }
  bool sees(std::int64_t i, std::int64_t j) const {
    return i + offset - left <= j && j <= i + offset + right;
  }
  // The keys that some of the rows see, for rows that are not empty.
  Range seen_by_any(Range rows) const {
    return {rows.begin + offset - left, rows.end + offset + right};
  }
  // The keys that each of the rows sees.
  Range seen_by_all(Range rows) const {
    return {rows.end - 1 + offset - left, rows.begin + offset + right + 1};
  }
  // The rows that see some of the keys, for keys that are not empty.
  Range rows_that_see_any(Range keys) const {
    return {keys.begin - offset - right, keys.end - offset + left};
  }

  friend bool operator==(const Band&, const Band&) = default;
};

}  // namespace tessera::core
