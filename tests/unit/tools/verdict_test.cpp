#include "tools/tessera/verdict.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "core/tolerance.hpp"
#include "tools/tessera/array.hpp"

namespace tessera::tool {
namespace {

using core::DType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Measure kMeasure{DType::kFloat32, 512, {4, 0}};

Array doubles(const std::vector<double>& values) {
  Array a = make_array(DType::kFloat64, std::vector<std::int64_t>{std::int64_t(values.size())});
  for (std::size_t n = 0; n < values.size(); ++n)
    a.tensor.store({std::int64_t(n), 0, 0, 0}, values[n]);
  return a;
}

Array normal(std::int64_t n) {
  Array a = make_array(DType::kFloat64, std::vector<std::int64_t>{n});
  core::fill_normal(a.tensor, 3, 0);
  return a;
}

Array scaled(const Array& array, double factor) {
  Array copy = converted(array, DType::kFloat64);
  for_each_index(copy.tensor.shape, [&](const core::Index4& i) {
    copy.tensor.store(i, factor * load(copy.tensor, i));
  });
  return copy;
}

TEST(Verdict, TurnsAtTheBoundOfTheContract) {
  const Array ref = normal(1000);
  const double bound = core::bound(DType::kFloat32, 512, {4, 0});
  const Verdict near = judge_out(scaled(ref, 1 + 0.9 * bound).tensor, ref.tensor, kMeasure);
  EXPECT_TRUE(near.pass);
  EXPECT_EQ(near.bound, bound);
  EXPECT_NEAR(near.relative_error, 0.9 * bound, 1e-3 * bound);
  const Verdict far = judge_out(scaled(ref, 1 + 2 * bound).tensor, ref.tensor, kMeasure);
  EXPECT_FALSE(far.pass);
  EXPECT_NEAR(far.relative_error, 2 * bound, 1e-3 * bound);
}

// Weights that float32 loses, and nothing larger; 0 stays exact.
TEST(Verdict, GrantsWhatIsLostBelowTheNormalNumbers) {
  Measure measure = kMeasure;
  const Array ref = doubles({1e-39, -2e-40}), none = doubles({0, 0});
  EXPECT_FALSE(judge_out(none.tensor, ref.tensor, measure).pass);
  measure.lost = 1e-35;
  EXPECT_TRUE(judge_out(none.tensor, ref.tensor, measure).pass);
  EXPECT_FALSE(judge_out(doubles({0, 1e-30}).tensor, ref.tensor, measure).pass);
  EXPECT_FALSE(judge_out(ref.tensor, none.tensor, measure).pass);
}

TEST(Verdict, AnotherKindOfNumberIsWrong) {
  const Array ref = doubles({1, NAN, kInfinity});
  EXPECT_TRUE(judge_out(ref.tensor, ref.tensor, kMeasure).pass);
  for (const auto& x : {doubles({NAN, NAN, kInfinity}), doubles({1, 1, kInfinity}),
                        doubles({1, NAN, -kInfinity}), doubles({1, NAN, 5})})
    EXPECT_FALSE(judge_out(x.tensor, ref.tensor, kMeasure).pass);
}

TEST(Verdict, ZerosMustBeMetExactly) {
  const Array ref = doubles({0, 0});
  EXPECT_TRUE(judge_out(ref.tensor, ref.tensor, kMeasure).pass);
  EXPECT_FALSE(judge_out(doubles({0, 1e-30}).tensor, ref.tensor, kMeasure).pass);
}

TEST(Verdict, WhatTheTypeCannotHoldRoundsToInfinity) {
  const Array ref = doubles({1, 1e6});
  const Measure half{DType::kFloat16, 8, {1, 0}};
  EXPECT_TRUE(judge_out(doubles({1, kInfinity}).tensor, ref.tensor, half).pass);
  EXPECT_FALSE(judge_out(doubles({1, 65504}).tensor, ref.tensor, half).pass);
}

TEST(Verdict, LseIsJudgedRowByRow) {
  std::vector<double> values(1000, 5.);
  values[7] = -kInfinity;
  const Array ref = doubles(values);
  const double bound = core::lse_bound(512, {4, 0});
  values[500] = 5 * (1 + 0.9 * bound);
  EXPECT_TRUE(judge_lse(doubles(values).tensor, ref.tensor, kMeasure).pass);
  values[500] = 5 * (1 + 2 * bound);
  const Verdict far = judge_lse(doubles(values).tensor, ref.tensor, kMeasure);
  EXPECT_FALSE(far.pass);
  EXPECT_NEAR(far.max_error, 10 * bound, 1e-3 * bound);
  values[500] = 5;
  values[7] = -1e30;
  EXPECT_FALSE(judge_lse(doubles(values).tensor, ref.tensor, kMeasure).pass);
}

}  // namespace
}  // namespace tessera::tool
