#include "core/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tessera::core {
namespace {

// Mean, variance, skewness and kurtosis within five standard errors of those of N(0, 1).
TEST(Random, MomentsOfTheNormalDistribution) {
  constexpr int kCount = 200'000;
  double sums[5] = {};
  for (int n = 0; n < kCount; ++n) {
    const double x = normal(3, 1, std::uint64_t(n));
    for (int power = 1; power <= 4; ++power) sums[power] += std::pow(x, power);
  }
  const double error = 5 / std::sqrt(double(kCount));
  EXPECT_NEAR(sums[1] / kCount, 0, error);
  EXPECT_NEAR(sums[2] / kCount, 1, error * std::sqrt(2.));
  EXPECT_NEAR(sums[3] / kCount, 0, error * std::sqrt(15.));
  EXPECT_NEAR(sums[4] / kCount, 3, error * std::sqrt(96.));
}

TEST(Random, QuantilesOfTheNormalDistribution) {
  constexpr int kCount = 200'000;
  int below_one = 0, beyond_three = 0;
  for (int n = 0; n < kCount; ++n) {
    const double x = normal(4, 0, std::uint64_t(n));
    below_one += x < 1;
    beyond_three += std::abs(x) > 3;
  }
  EXPECT_NEAR(below_one / double(kCount), 0.841345, 5e-3);
  EXPECT_NEAR(beyond_three / double(kCount), 0.0026998, 6e-4);
}

TEST(Random, SeedsTensorsAndNeighboursAreUncorrelated) {
  constexpr int kCount = 50'000;
  double by_seed = 0, by_tensor = 0, by_element = 0;
  for (std::uint64_t n = 0; n < kCount; ++n) {
    const double x = normal(1, 1, n);
    by_seed += x * normal(2, 1, n);
    by_tensor += x * normal(1, 2, n);
    by_element += x * normal(1, 1, n + 1);
  }
  for (const double sum : {by_seed, by_tensor, by_element})
    EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(double(kCount)));
}

// Pinned, so that a case which a command line names stays the same case.
TEST(Random, ValuesArePinned) {
  EXPECT_NEAR(normal(0, 0, 0), -1.6249634408710401, 1e-13);
  EXPECT_NEAR(normal(7, 2, std::uint64_t{1} << 33), -0.48155477590043405, 1e-13);
}

TEST(Random, EveryBitPatternIsFinite) {
  EXPECT_EQ(unit(0), 0);
  EXPECT_LT(unit(~std::uint64_t{0}), 1);
  EXPECT_TRUE(std::isfinite(std::sqrt(-2 * std::log1p(-unit(~std::uint64_t{0})))));
}

TEST(Random, FillDependsOnNeitherStridesNorType) {
  std::vector<float> dense(24), spread(24);
  std::vector<std::uint16_t> half(24);
  const Index4 shape{2, 3, 1, 4};
  const Tensor a{dense.data(), shape, {12, 4, 4, 1}, DType::kFloat32};
  const Tensor b{spread.data(), shape, {1, 2, 1, 6}, DType::kFloat32};
  const Tensor c{half.data(), shape, {12, 4, 4, 1}, DType::kFloat16};
  fill_normal(a, 9, 1);
  fill_normal(b, 9, 1);
  fill_normal(c, 9, 1);
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t d = 0; d < 4; ++d) {
        const double x = normal(9, 1, std::uint64_t((i * 3 + j) * 4 + d));
        EXPECT_EQ(a.load(i, j, 0, d), double(float(x)));
        EXPECT_EQ(b.load(i, j, 0, d), double(float(x)));
        EXPECT_NEAR(c.load(i, j, 0, d), x, std::abs(x) * 0x1p-11 + 0x1p-25);
      }
}

TEST(Random, FillScales) {
  double element = 0;
  fill_normal({&element, {1, 1, 1, 1}, {1, 1, 1, 1}, DType::kFloat64}, 9, 1, 3);
  EXPECT_EQ(element, 3 * normal(9, 1, 0));
}

TEST(Draws, WholeNumbersCoverTheirRangeEvenly) {
  Draws draws(5);
  std::array<int, 7> counts{};
  for (int n = 0; n < 70'000; ++n) {
    const std::int64_t x = draws.between(-3, 3);
    ASSERT_TRUE(-3 <= x && x <= 3);
    ++counts[std::size_t(x + 3)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(draws.between(4, 4), 4);
  draws.between(INT64_MIN, INT64_MAX);
}

TEST(Shuffled, IsAnOrderOfAllThatDependsOnItsSeed) {
  for (const std::int64_t n : {0, 1, 2, 50}) {
    std::vector<std::int64_t> order = shuffled(n, 3), same = shuffled(n, 3);
    EXPECT_EQ(order, same);
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(order[std::size_t(i)], i);
  }
  EXPECT_NE(shuffled(50, 3), shuffled(50, 4));
  EXPECT_NE(shuffled(50, 3, 1), shuffled(50, 3, 2));
}

// Each of three may stand at each place equally often.
TEST(Shuffled, EveryPlaceIsEquallyLikely) {
  int counts[3][3] = {};
  for (std::uint64_t seed = 0; seed < 9000; ++seed) {
    const std::vector<std::int64_t> order = shuffled(3, seed);
    for (std::size_t place = 0; place < 3; ++place) ++counts[place][order[place]];
  }
  for (const auto& row : counts)
    for (const int count : row) EXPECT_NEAR(count, 3000, 250);
}

TEST(Draws, ChanceAndRepetition) {
  Draws a(6), b(6), other(6, 1);
  int hits = 0, differ = 0;
  for (int n = 0; n < 10'000; ++n) hits += a.chance(0.25);
  EXPECT_NEAR(hits, 2500, 250);
  for (int n = 0; n < 10'000; ++n) b.chance(0.25);
  for (int n = 0; n < 100; ++n) {
    const std::int64_t x = a.between(0, 1 << 30);
    EXPECT_EQ(x, b.between(0, 1 << 30));
    differ += x != other.between(0, 1 << 30);
  }
  EXPECT_GT(differ, 90);
}

}  // namespace
}  // namespace tessera::core
