#include "core/state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.hpp"

namespace tessera::core {
namespace {

constexpr std::size_t kDim = 3;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Key {
  double score;
  std::vector<double> value;
};

std::vector<Key> random_keys(std::uint64_t seed, int count, double spread) {
  Draws draws(seed);
  std::vector<Key> keys;
  for (int n = 0; n < count; ++n)
    keys.push_back({spread * draws.normal(), {draws.normal(), draws.normal(), draws.normal()}});
  return keys;
}

State absorb(const std::vector<Key>& keys, std::size_t begin, std::size_t end) {
  State state(kDim);
  for (std::size_t n = begin; n < end; ++n) state.absorb(keys[n].score, 1, keys[n].value);
  return state;
}

std::vector<double> finish(const State& state) {
  std::vector<double> out(kDim, kNan);
  state.finish(out);
  return out;
}

State merged(State a, const State& b) {
  a.merge(b);
  return a;
}

void expect_same_row(const State& a, const State& b, double tolerance) {
  if (std::isinf(b.lse()))
    EXPECT_EQ(a.lse(), b.lse());
  else
    EXPECT_NEAR(a.lse(), b.lse(), tolerance);
  for (std::size_t d = 0; d < kDim; ++d) EXPECT_NEAR(finish(a)[d], finish(b)[d], tolerance);
}

TEST(State, TwoKeysByHand) {
  State state(1);
  state.absorb(std::log(1.), 1, std::vector<double>{10});
  state.absorb(std::log(3.), 1, std::vector<double>{30});
  double out = 0;
  state.finish({&out, 1});
  EXPECT_NEAR(out, (1 * 10 + 3 * 30) / 4., 1e-14);
  EXPECT_NEAR(state.lse(), std::log(4.), 1e-15);
}

TEST(State, NothingSeenGivesZeroAndMinusInfinity) {
  const State state(kDim);
  EXPECT_TRUE(state.empty());
  EXPECT_EQ(state.lse(), -kInfinity);
  EXPECT_EQ(finish(state), std::vector<double>(kDim, 0.));
}

TEST(State, EmptyIsTheIdentityOfMerge) {
  const auto keys = random_keys(1, 5, 2);
  const State row = absorb(keys, 0, 5), nothing(kDim);
  for (const State& s : {merged(row, nothing), merged(nothing, row)}) {
    EXPECT_EQ(s.lse(), row.lse());
    EXPECT_EQ(finish(s), finish(row));
  }
  const State still_nothing = merged(nothing, nothing);
  EXPECT_EQ(still_nothing.lse(), -kInfinity);
  EXPECT_EQ(finish(still_nothing), std::vector<double>(kDim, 0.));
}

TEST(State, AnySplitGivesTheWhole) {
  for (const double spread : {0., 1., 30., 1000.}) {
    const auto keys = random_keys(2, 12, spread);
    const State whole = absorb(keys, 0, keys.size());
    for (std::size_t a = 0; a <= keys.size(); ++a)
      for (std::size_t b = a; b <= keys.size(); ++b)
        expect_same_row(
            merged(merged(absorb(keys, 0, a), absorb(keys, a, b)), absorb(keys, b, keys.size())),
            whole, 1e-12);
  }
}

TEST(State, MergeIsAssociativeAndCommutative) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto keys = random_keys(seed, 9, 5);
    const State a = absorb(keys, 0, 3), b = absorb(keys, 3, 4), c = absorb(keys, 4, 9);
    expect_same_row(merged(merged(a, b), c), merged(a, merged(b, c)), 1e-13);
    expect_same_row(merged(a, b), merged(b, a), 1e-13);
  }
}

TEST(State, OrderOfKeysDoesNotMatter) {
  auto keys = random_keys(3, 8, 20);
  const State forwards = absorb(keys, 0, keys.size());
  std::reverse(keys.begin(), keys.end());
  expect_same_row(absorb(keys, 0, keys.size()), forwards, 1e-13);
}

TEST(State, FinishedRowsMergeLikeTheirKeys) {
  const auto keys = random_keys(4, 10, 3);
  const State whole = absorb(keys, 0, 10), a = absorb(keys, 0, 4), b = absorb(keys, 4, 10);
  expect_same_row(merged(State::finished(a.lse(), finish(a)), State::finished(b.lse(), finish(b))),
                  whole, 1e-13);
}

TEST(State, BothInfinitiesMeanEmptyWhateverTheRowHolds) {
  const auto keys = random_keys(5, 4, 1);
  const State row = absorb(keys, 0, 4);
  for (const double lse : {kInfinity, -kInfinity}) {
    const State nothing = State::finished(lse, std::vector<double>(kDim, kNan));
    EXPECT_TRUE(nothing.empty());
    EXPECT_EQ(merged(nothing, nothing).lse(), -kInfinity);
    EXPECT_EQ(finish(merged(nothing, nothing)), std::vector<double>(kDim, 0.));
    EXPECT_EQ(finish(merged(row, nothing)), finish(row));
    EXPECT_EQ(finish(merged(nothing, row)), finish(row));
  }
}

// The weight exp(-1400) is positive, though double loses it in one step and not in two: the
// infinity that it weighs stays one in any order, and meets another one as infinities do.
TEST(State, AnInfinityStaysOneHoweverLittleItWeighs) {
  std::vector<Key> keys{{-700, {-kInfinity, kInfinity, 1}}, {0, {1, 1, 1}}, {700, {2, -3, 4}}};
  const auto by_score = [](const Key& a, const Key& b) { return a.score < b.score; };
  do {
    State rows(kDim);
    for (const Key& k : keys) rows.merge(State::finished(k.score, k.value));
    for (const State& state : {absorb(keys, 0, keys.size()), rows}) {
      EXPECT_EQ(state.lse(), 700);
      EXPECT_EQ(finish(state), (std::vector<double>{-kInfinity, kInfinity, 4}));
    }
  } while (std::next_permutation(keys.begin(), keys.end(), by_score));
  const auto meets = State::finished(-900, std::vector<double>{kInfinity, kInfinity, 1});
  const std::vector<double> both = finish(merged(absorb(keys, 0, keys.size()), meets));
  EXPECT_TRUE(std::isnan(both[0]));
  EXPECT_EQ(both[1], kInfinity);
  EXPECT_EQ(both[2], 4);
}

TEST(State, HiddenKeysAreNotMultiplied) {
  State state(kDim);
  state.absorb(-kInfinity, 1, std::vector<double>(kDim, kNan));
  EXPECT_TRUE(state.empty());
  EXPECT_EQ(finish(state), std::vector<double>(kDim, 0.));
  state.absorb(0.5, 1, std::vector<double>{1, 2, 3});
  state.absorb(-kInfinity, 1, std::vector<double>(kDim, kInfinity));
  EXPECT_EQ(finish(state), (std::vector<double>{1, 2, 3}));
}

TEST(State, DroppedValuesCountInTheDenominatorAndAreNotRead) {
  State state(kDim);
  state.absorb(0, 2, std::vector<double>{1, 2, 3});
  state.absorb(0, 0, std::vector<double>(kDim, kNan));
  EXPECT_EQ(finish(state), (std::vector<double>{1, 2, 3}));
  EXPECT_NEAR(state.lse(), std::log(2.), 1e-15);
}

TEST(State, AVisibleNaNStays) {
  const std::vector<double> value{1, 2, 3};
  for (const bool first : {true, false}) {
    State state(kDim);
    if (!first) state.absorb(7, 1, value);
    state.absorb(kNan, 1, value);
    state.absorb(1000, 1, value);
    state.absorb(-1000, 1, value);
    EXPECT_FALSE(state.empty());
    EXPECT_TRUE(std::isnan(state.lse()));
    EXPECT_TRUE(std::isnan(finish(state)[0]));
  }
}

TEST(State, ANaNInAValueStaysInItsColumn) {
  State state(kDim);
  state.absorb(1, 1, std::vector<double>{1, kNan, 3});
  state.absorb(2, 1, std::vector<double>{1, 2, 3});
  EXPECT_NEAR(finish(state)[0], 1, 1e-15);
  EXPECT_TRUE(std::isnan(finish(state)[1]));
  EXPECT_TRUE(std::isfinite(state.lse()));
}

TEST(State, ScoresOfAnySize) {
  const std::vector<double> value{1, 2, 3};
  for (const double s : {-1e308, -3.4e38, -750., 0., 750., 3.4e38, 1e308}) {
    State state(kDim);
    state.absorb(s, 1, value);
    state.absorb(s, 1, value);
    EXPECT_EQ(finish(state), value) << s;
    EXPECT_DOUBLE_EQ(state.lse(), s + std::log(2.));
  }
}

// A first block of the lowest finite scores counts until a real one comes (pytorch 109517).
TEST(State, TheLowestScoresAreForgottenExactly) {
  State state(kDim);
  for (int n = 0; n < 5; ++n) state.absorb(-3.4028234663852886e38, 1, std::vector<double>{9, 9, 9});
  state.absorb(-2, 1, std::vector<double>{1, 2, 3});
  EXPECT_EQ(finish(state), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(state.lse(), -2);
}

TEST(State, TheSinkIsAKeyWithoutAValue) {
  State state(kDim);
  state.absorb(std::log(2.), 1, std::vector<double>{3, 6, 9});
  EXPECT_NEAR(state.absorb(std::log(4.)), 1, 1e-15);
  EXPECT_NEAR(finish(state)[1], 2, 1e-14);
  EXPECT_NEAR(state.lse(), std::log(6.), 1e-15);
  State alone(kDim);
  alone.absorb(1.5);
  EXPECT_EQ(alone.lse(), 1.5);
  EXPECT_EQ(finish(alone), std::vector<double>(kDim, 0.));
  EXPECT_EQ(alone.absorb(-kInfinity), 0);
  EXPECT_EQ(alone.lse(), 1.5);
}

}  // namespace
}  // namespace tessera::core
