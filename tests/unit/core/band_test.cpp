#include "core/band.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace tessera::core {
namespace {

constexpr std::int64_t kAny = Band::kUnbounded;

TEST(Range, Arithmetic) {
  const Range r{2, 5};
  EXPECT_EQ(r.size(), 3);
  EXPECT_TRUE(r.contains(2) && r.contains(4) && !r.contains(5) && !r.contains(1));
  EXPECT_EQ((r & Range{4, 9}), (Range{4, 5}));
  EXPECT_TRUE((r & Range{5, 9}).empty());
  EXPECT_TRUE(r.contains(Range{2, 5}) && !r.contains(Range{2, 6}));
}

TEST(Band, FullCausalAndWindow) {
  const Band full, causal{kAny, 0, 0}, window{1, 2, 0}, shifted{0, 0, 3};
  EXPECT_FALSE(full.bounded());
  EXPECT_TRUE(causal.bounded() && window.bounded());
  EXPECT_TRUE(full.sees(0, 1'000'000) && full.sees(1'000'000, 0));
  EXPECT_TRUE(causal.sees(3, 3) && causal.sees(3, 0) && !causal.sees(3, 4));
  EXPECT_TRUE(window.sees(5, 4) && window.sees(5, 7) && !window.sees(5, 3) && !window.sees(5, 8));
  EXPECT_TRUE(shifted.sees(1, 4) && !shifted.sees(1, 3));
}

// Both ranges against the pairs themselves.
TEST(Band, RangesAreTheUnionAndTheIntersectionOfRows) {
  Draws draws(1);
  for (int n = 0; n < 2000; ++n) {
    const auto side = [&] { return draws.chance(0.2) ? kAny : draws.between(0, 6); };
    const Band band{side(), side(), draws.between(-6, 6)};
    const std::int64_t first = draws.between(0, 9);
    const Range rows{first, first + draws.between(1, 5)};
    for (std::int64_t j = -20; j < 40; ++j) {
      bool any = false, all = true;
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        any = any || band.sees(i, j);
        all = all && band.sees(i, j);
      }
      ASSERT_EQ(band.seen_by_any(rows).contains(j), any) << j;
      ASSERT_EQ(band.seen_by_all(rows).contains(j), all) << j;
    }
  }
}

TEST(Band, UnboundedNeverOverflows) {
  const std::int64_t last = std::int64_t{1} << 60;
  for (const std::int64_t offset : {-kAny, std::int64_t{0}, kAny}) {
    const Band band{kAny, kAny, offset};
    const Range any = band.seen_by_any({0, last});
    EXPECT_LE(any.begin, offset);
    EXPECT_GE(any.end, offset);
    EXPECT_TRUE(band.seen_by_any({0, 1}).contains(offset));
  }
  EXPECT_EQ(Band::clamp(INT64_MAX), kAny);
  EXPECT_EQ(Band::clamp(INT64_MIN), -kAny);
  EXPECT_EQ(Band::clamp(-5), -5);
}

}  // namespace
}  // namespace tessera::core
