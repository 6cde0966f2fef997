#include "core/explain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/error.hpp"
#include "core/explain_math.hpp"

namespace tessera::test {
namespace {

using core::explain_row;
using core::RowOptions;
using core::RowState;
using core::RowTrace;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kInfinity32 = std::numeric_limits<float>::infinity();

double ulps(double x, double y) {
  if (x == y) return 0;
  const double unit = std::nextafter(std::abs(y), kInfinity) - std::abs(y);
  return std::abs(x - y) / unit;
}

TEST(ExactExp, IsWithinOneUnitOfTheMathematicsLibrary) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-745, 709.7), narrow(-1, 1);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 ? wide(random) : narrow(random);
    ASSERT_LE(ulps(core::exact_exp(x), std::exp(x)), 1) << x;
  }
}

// The factor of a maximum that did not grow: anything but 1 would drift with every block.
TEST(ExactExp, OfZeroIsOne) {
  EXPECT_EQ(core::exact_exp(0.), 1);
  EXPECT_EQ(core::exact_exp(-0.), 1);
}

TEST(ExactExp, Edges) {
  EXPECT_EQ(core::exact_exp(-kInfinity), 0);
  EXPECT_EQ(core::exact_exp(kInfinity), kInfinity);
  EXPECT_EQ(core::exact_exp(710), kInfinity);
  EXPECT_EQ(core::exact_exp(-746), 0);
  EXPECT_TRUE(std::isnan(core::exact_exp(std::nan(""))));
}

TEST(ExactLog, IsWithinTwoUnitsOfTheMathematicsLibrary) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-744, 709), near(0.5, 2);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 ? std::exp(exponent(random)) : near(random);
    ASSERT_LE(ulps(core::exact_log(x), std::log(x)), 2) << x;
  }
  EXPECT_EQ(core::exact_log(1.), 0);
  EXPECT_EQ(core::exact_log(0.), -kInfinity);
  EXPECT_EQ(core::exact_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(core::exact_log(-1.)));
}

double difference(const std::vector<float>& x, const std::vector<double>& y) {
  double most = 0;
  for (std::size_t d = 0; d < x.size(); ++d) most = std::max(most, std::abs(double{x[d]} - y[d]));
  return most;
}

// Four keys by hand: scores ln 1, ln 2, ln 3, ln 4 weigh 1/10, 2/10, 3/10, 4/10.
TEST(ExplainRow, ScoresOfKnownWeight) {
  const RowTrace t = explain_row({.keys = 4,
                                  .block = 2,
                                  .dim = 1,
                                  .scores = {0, std::log(2.f), std::log(3.f), std::log(4.f)}});
  const double expected = (t.v[0] + 2. * t.v[1] + 3. * t.v[2] + 4. * t.v[3]) / 10;
  EXPECT_NEAR(t.exact.out[0], expected, 1e-7);
  EXPECT_NEAR(t.exact.lse, std::log(10.), 1e-7);
  ASSERT_EQ(t.steps.size(), 2u);
  EXPECT_NEAR(t.steps[0].l, 1.5, 1e-6);       // (1 + 2) / 2
  EXPECT_NEAR(t.steps[1].rescale, .5, 1e-6);  // 2 / 4
  EXPECT_NEAR(t.steps[1].l, 2.5, 1e-6);       // 10 / 4
  EXPECT_TRUE(t.steps[1].grew());
}

// With uniform scores attention is the mean of v.
TEST(ExplainRow, UniformScoresGiveTheMean) {
  const RowTrace t =
      explain_row({.keys = 7, .block = 3, .dim = 1, .scores = std::vector<float>(7, 2.5f)});
  double mean = 0;
  for (const float x : t.v) mean += double{x} / 7;
  EXPECT_NEAR(t.exact.out[0], mean, 1e-14);
  EXPECT_NEAR(t.end.normalised()[0], mean, 1e-6);
  EXPECT_FALSE(t.steps[1].grew());
  EXPECT_EQ(t.steps[1].rescale, 1);
}

TEST(ExplainRow, EveryStepIsAttentionOverTheKeysSeenSoFar) {
  const RowTrace t = explain_row({.keys = 23, .block = 4, .dim = 5, .seed = 3});
  for (const core::RowStep& step : t.steps) {
    RowOptions prefix{.keys = 23, .block = 23, .dim = 5, .seed = 3};
    prefix.hidden = {{step.keys.end, 23}};
    EXPECT_LT(difference(step.normalised, explain_row(prefix).exact.out), 1e-6);
  }
}

TEST(ExplainRow, EndsExactWhateverTheBlock) {
  for (const std::int64_t keys : {1, 2, 17, 64, 257})
    for (const std::int64_t block : {1, 2, 3, 16, 64, 1000})
      for (const std::uint64_t seed : {0u, 1u, 99u}) {
        const RowTrace t = explain_row({.keys = keys, .block = block, .dim = 8, .seed = seed});
        EXPECT_EQ(t.steps.size(), static_cast<std::size_t>((keys + block - 1) / block));
        EXPECT_LT(t.steps.back().error, 2e-6);
        EXPECT_EQ(t.steps.back().error, difference(t.end.normalised(), t.exact.out));
        EXPECT_NEAR(t.end.lse(), t.exact.lse, 2e-6);
      }
}

TEST(ExplainRow, SixteenBitTypesRoundTheProbabilities) {
  const RowTrace exact = explain_row({.keys = 64, .dtype = core::DType::kFloat32});
  const RowTrace half = explain_row({.keys = 64, .dtype = core::DType::kFloat16});
  const RowTrace brain = explain_row({.keys = 64, .dtype = core::DType::kBfloat16});
  EXPECT_LT(exact.steps.back().error, 1e-6);
  EXPECT_GT(half.steps.back().error, 1e-6);
  EXPECT_LT(half.steps.back().error, 1e-3);
  EXPECT_GT(brain.steps.back().error, 1e-5);
  EXPECT_LT(brain.steps.back().error, 1e-2);
  for (const float x : brain.v)
    EXPECT_EQ(x, core::float_from_bfloat16(core::bfloat16_from_float(x)));
}

TEST(ExplainRow, AscendingScoresRescaleAtEveryBlock) {
  const RowTrace t = explain_row({.keys = 6, .block = 2, .scores = {0, 1, 2, 3, 4, 5}});
  for (std::size_t i = 1; i < t.steps.size(); ++i) {
    EXPECT_TRUE(t.steps[i].grew());
    EXPECT_NEAR(t.steps[i].rescale, std::exp(-2.), 1e-7);
  }
}

TEST(ExplainRow, HugeScoresOverflowTheNaiveSoftmaxOnly) {
  const RowTrace large = explain_row({.keys = 4, .scores = {100, 99, -100, 98}});
  EXPECT_TRUE(std::isnan(large.naive[0]));  // inf / inf
  EXPECT_LT(large.steps.back().error, 1e-6);
  const RowTrace small = explain_row({.keys = 2, .scores = {-200, -201}});
  EXPECT_TRUE(std::isnan(small.naive[0]));  // 0 / 0
  EXPECT_LT(small.steps.back().error, 1e-6);
  const RowTrace extreme = explain_row({.keys = 2, .scores = {3e38f, -3e38f}});
  EXPECT_EQ(extreme.steps.back().normalised[0], extreme.v[0]);
}

TEST(ExplainRow, NaiveSoftmaxAgreesWhereItIsInRange) {
  const RowTrace t = explain_row({.keys = 16, .seed = 5});
  EXPECT_LT(difference(t.naive, t.exact.out), 1e-5);
}

TEST(ExplainRow, AHiddenBlockIsNeverVisited) {
  const RowTrace t = explain_row({.keys = 8, .block = 2, .seed = 2, .hidden = {{2, 4}, {7, 8}}});
  EXPECT_TRUE(t.steps[1].skipped);
  EXPECT_TRUE(t.steps[1].p.empty());
  EXPECT_EQ(t.steps[1].l, t.steps[0].l);
  EXPECT_EQ(t.steps[1].rescale, 1);
  EXPECT_FALSE(t.steps[3].skipped);
  EXPECT_EQ(t.steps[3].scores[1], -kInfinity32);
  EXPECT_EQ(t.steps[3].p[1], 0);
  EXPECT_LT(t.steps.back().error, 1e-6);
}

TEST(ExplainRow, CausalRowStopsAtItsDiagonal) {
  const RowTrace t = explain_row({.keys = 8, .band = {.right = 0}, .row = 4});
  EXPECT_FALSE(t.steps[2].skipped);  // keys 4 and 5
  EXPECT_EQ(t.scores[5], -kInfinity32);
  EXPECT_TRUE(t.steps[3].skipped);
}

TEST(ExplainRow, ARowThatSeesNothingIsZero) {
  const RowTrace t = explain_row({.keys = 4, .hidden = {{0, 4}}});
  EXPECT_EQ(t.end.normalised(), std::vector<float>(4, 0.f));
  EXPECT_EQ(t.end.lse(), -kInfinity32);
  EXPECT_EQ(t.exact.lse, -kInfinity);
  EXPECT_EQ(t.exact.out, std::vector<double>(4, 0.));
  EXPECT_EQ(t.naive, std::vector<float>(4, 0.f));
  EXPECT_TRUE(explain_row({.keys = 0}).steps.empty());
}

TEST(ExplainRow, ASinkIsAKeyOfValueZero) {
  RowOptions plain{.keys = 5, .block = 2, .dim = 1, .scores = {1, 2, 3, 0, -1}};
  const RowTrace without = explain_row(plain);
  plain.sink = 2.5f;
  const RowTrace t = explain_row(plain);
  EXPECT_EQ(t.start.m, 2.5f);
  EXPECT_LT(t.steps.back().error, 1e-6);
  const double sum = std::exp(without.exact.lse), sink = std::exp(2.5);
  EXPECT_NEAR(t.exact.lse, std::log(sum + sink), 1e-12);
  EXPECT_NEAR(t.exact.out[0], without.exact.out[0] * sum / (sum + sink), 1e-12);
  plain.hidden = {{0, 5}};
  EXPECT_EQ(explain_row(plain).end.lse(), 2.5f);
  EXPECT_EQ(explain_row(plain).end.normalised()[0], 0);
}

TEST(ExplainRow, AVisibleNanIsNotMistakenForHidden) {
  const RowTrace t = explain_row({.keys = 4, .scores = {1, std::nanf(""), 2, 3}});
  EXPECT_TRUE(std::isnan(t.end.m));
  EXPECT_TRUE(std::isnan(t.end.lse()));
  EXPECT_TRUE(std::isnan(t.exact.lse));
  EXPECT_TRUE(std::isnan(t.steps.back().error));
}

TEST(ExplainRow, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(explain_row({.keys = -1}), core::Error);
  EXPECT_THROW(explain_row({.block = 0}), core::Error);
  EXPECT_THROW(explain_row({.dim = 0}), core::Error);
  EXPECT_THROW(explain_row({.keys = 1 << 20, .dim = 1 << 20}), core::Error);
  EXPECT_THROW(explain_row({.dtype = core::DType::kFloat64}), core::Error);
  EXPECT_THROW(explain_row({.keys = 3, .scores = {1, 2}}), core::Error);
}

void expect_close(const RowState& a, const RowState& b) {
  EXPECT_EQ(a.m, b.m);
  EXPECT_NEAR(a.l, b.l, 1e-5 * std::abs(b.l));
  for (std::size_t d = 0; d < a.o.size(); ++d) EXPECT_NEAR(a.o[d], b.o[d], 1e-5);
}

TEST(RowState, TheEmptyStateIsTheIdentity) {
  const RowTrace t = explain_row({.keys = 6});
  const RowState state = core::state_of(t, {0, 6}), empty = core::state_of(t, {3, 3});
  EXPECT_EQ(core::merge(state, empty), state);
  EXPECT_EQ(core::merge(empty, state), state);
  EXPECT_EQ(core::merge(empty, empty), empty);
  EXPECT_EQ(core::state_of(t, {9, 12}), empty);
}

TEST(RowState, MergeIsCommutativeAndAssociativeUpToRounding) {
  const RowTrace t = explain_row({.keys = 48, .dim = 3, .seed = 8});
  for (std::int64_t i = 0; i <= 48; i += 6)
    for (std::int64_t j = i; j <= 48; j += 3) {
      const RowState a = core::state_of(t, {0, i}), b = core::state_of(t, {i, j}),
                     c = core::state_of(t, {j, 48});
      EXPECT_EQ(core::merge(a, b), core::merge(b, a));
      expect_close(core::merge(core::merge(a, b), c), core::merge(a, core::merge(b, c)));
      expect_close(core::merge(core::merge(a, b), c), core::state_of(t, {0, 48}));
    }
}

// A step of the loop is a merge with the state of its block.
TEST(RowState, AbsorbingABlockIsMergingItsState) {
  const RowTrace t = explain_row({.keys = 30, .block = 7, .seed = 4});
  RowState state = t.start;
  for (const core::RowStep& step : t.steps) {
    state = core::merge(state, core::state_of(t, step.keys));
    expect_close(state, {step.m, step.l, step.o});
  }
}

// Pinned: the same on every processor and in WebAssembly. Any change of these digits changes what
// the documentation and the web page show.
TEST(ExplainRow, TheDefaultTraceIsTheSameEverywhere) {
  const RowTrace t = explain_row({});
  EXPECT_EQ(t.end.m, 0x1.148268p+1f);
  EXPECT_EQ(t.end.l, 0x1.ff0222p+0f);
  EXPECT_EQ(t.end.o[0], 0x1.e1c624p-1f);
  EXPECT_EQ(t.exact.lse, 0x1.6cfbebe58f1aap+1);
}

}  // namespace
}  // namespace tessera::test
