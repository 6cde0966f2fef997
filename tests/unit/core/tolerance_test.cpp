#include "core/tolerance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/random.hpp"

namespace tessera::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Tolerance, TheTableOfTheContract) {
  EXPECT_EQ(bound(DType::kFloat32, 1, {0, 0}), 1e-6);
  EXPECT_EQ(bound(DType::kFloat16, 16384, {8, 0}), 4e-4);
  EXPECT_EQ(bound(DType::kBfloat16, 0, {0, 0}), 3e-3);
}

TEST(Tolerance, TheFloat32PartGrowsWithScoresAndKeysBeyondTheConditions) {
  EXPECT_DOUBLE_EQ(bound(DType::kFloat32, 100, {80, 0}), 1e-5);
  EXPECT_DOUBLE_EQ(bound(DType::kFloat32, 4 * 16384, {8, 0}), 2e-6);
  EXPECT_DOUBLE_EQ(bound(DType::kFloat32, 4 * 16384, {80, 0}), 2e-5);
  EXPECT_DOUBLE_EQ(bound(DType::kFloat16, 100, {80, 0}), 4e-4 + 9e-6);
  EXPECT_DOUBLE_EQ(bound(DType::kBfloat16, 100, {80, 0}), 3e-3 + 9e-6);
  EXPECT_DOUBLE_EQ(bound(DType::kFloat64, 100, {80, 0}), 1e-13);
}

// Never looser than the contract, which multiplies the whole row of the table by S / 8.
TEST(Tolerance, IsWithinTheContract) {
  for (const DType t : {DType::kFloat32, DType::kFloat16, DType::kBfloat16})
    for (const double score : {0., 8., 9., 100., 1e6})
      EXPECT_LE(bound(t, 100, {score, 0}),
                bound(t, 100, {0, 0}) * std::max(1., score / 8) * (1 + 1e-15));
}

TEST(Tolerance, LseGrowsWithScoresUntilItIsLargeItself) {
  EXPECT_EQ(lse_bound(100, {3, 0}), 1e-6);
  EXPECT_DOUBLE_EQ(lse_bound(100, {16, 0}), 2e-6);
  EXPECT_DOUBLE_EQ(lse_bound(100, {32, 0}), 4e-6);
  EXPECT_DOUBLE_EQ(lse_bound(100, {1e30, 0}), 4e-6);
}

// A score of 0 whose terms cancel: its error is that of its terms.
TEST(Tolerance, TheBoundGrowsWithTheTermsOfScores) {
  EXPECT_DOUBLE_EQ(bound(DType::kFloat32, 100, {0, 240}), 1e-5);
  EXPECT_DOUBLE_EQ(bound(DType::kFloat32, 100, {80, 20}), 1e-5);
  EXPECT_DOUBLE_EQ(bound(DType::kFloat16, 100, {0, 240}), 4e-4 + 9e-6);
}

// Within the conditions of the table, D = 256 at most, it is the table.
TEST(Tolerance, TheTermsOfNormalInputsChangeNothing) {
  for (const std::int64_t dim : {64, 128, 256}) {
    std::vector<double> q(std::size_t(512 * dim)), k(q.size());
    const auto view = [dim](std::vector<double>& x) {
      return Tensor{x.data(), {1, 512, 1, dim}, {0, dim, dim, 1}, DType::kFloat64};
    };
    fill_normal(view(q), 1, 0);
    fill_normal(view(k), 1, 1);
    const double product = largest_product(view(q), view(k), NAN);
    EXPECT_GT(product, std::sqrt(double(dim)));
    EXPECT_LE(effective_score({0, product}), kBoundScore) << dim;
  }
}

// Row 0 of q is short and row 1 of k long: they meet where any row of k may belong to q.
TEST(Tolerance, TheProductOfPagesIsThatOfAnyRow) {
  double q[] = {1, 10}, k[] = {2, 3};
  const auto view = [](double* x) {
    return Tensor{x, {2, 1, 1, 1}, {1, 0, 0, 1}, DType::kFloat64};
  };
  EXPECT_DOUBLE_EQ(largest_product(view(q), view(k), 1), 30);
  std::swap(q[0], q[1]);
  EXPECT_DOUBLE_EQ(largest_product(view(q), view(k), 1), 20);
  EXPECT_DOUBLE_EQ(largest_product(view(q), view(k), 1, Rows::kAny), 30);
}

TEST(Tolerance, LseGrowsWithTheTermsOfItsScores) {
  EXPECT_DOUBLE_EQ(lse_bound(100, {0, 32}), 4e-6);
  EXPECT_DOUBLE_EQ(lse_bound(4 * 16384, {0, 32}), 8e-6);
}

TEST(Tolerance, TheLargestProductIsThatOfTheLongestFiniteRowsOfAHead) {
  std::vector<float> q{3, 4, 1, 0, 0, 2, 0, 1}, k{0, 2, 1, 0, 7, 0, float(kNan), 9};
  // [1, L, H, 2]: two queries and two keys for two heads.
  const auto dense = [](std::vector<float>& x) {
    return Tensor{x.data(), {1, 2, 2, 2}, {8, 4, 2, 1}, DType::kFloat32};
  };
  EXPECT_DOUBLE_EQ(largest_product(dense(q), dense(k), 0.5), 0.5 * 5 * 7);
  const Tensor one_head{k.data(), {1, 4, 1, 2}, {8, 2, 2, 1}, DType::kFloat32};
  EXPECT_DOUBLE_EQ(largest_product(dense(q), one_head, 1), 5 * 7);
  const Tensor none{nullptr, {1, 0, 2, 2}, {0, 4, 2, 1}, DType::kFloat32};
  EXPECT_EQ(largest_product(none, dense(k), 1), 0);
}

// ---- Gradients ----

const std::vector<double> kUnit(64, 0.125);  // of norm 1

GradientMeasure measure(DType inputs, DType gradient, const TermNorms& terms = {}) {
  return {.inputs = inputs,
          .out = inputs,
          .gradient = gradient,
          .summed = 64,
          .score = {0, 0},
          .terms = terms};
}

// The terms of N(0, 1) inputs are about as large as the gradient, and those of out much smaller.
TEST(GradientTolerance, IsWithinTheTableOfTheContract) {
  for (const auto& [dtype, row] :
       {std::pair{DType::kFloat32, 3e-6}, {DType::kFloat16, 8e-4}, {DType::kBfloat16, 6e-3}}) {
    EXPECT_LE(gradient_bound(measure(dtype, dtype, {1, 0.4}), kUnit), row * (1 + 1e-9));
    EXPECT_GE(gradient_bound(measure(dtype, dtype), kUnit), row / 2);
    EXPECT_LE(gradient_bound(measure(dtype, DType::kFloat32, {1, 0.4}), kUnit), row * (1 + 1e-9));
    EXPECT_EQ(bound_row(dtype).gradients, row);
  }
}

TEST(GradientTolerance, IsRelativeToHalfOfTheTermsWhereTheyCancel) {
  const GradientMeasure large = measure(DType::kFloat32, DType::kFloat32, {6, 0});
  const GradientMeasure small = measure(DType::kFloat32, DType::kFloat32, {1, 0});
  EXPECT_EQ(gradient_size(large, kUnit), 3);
  EXPECT_EQ(gradient_size(small, kUnit), 1);
  EXPECT_EQ(gradient_size(large, std::vector<double>(2)), 3);
  EXPECT_NEAR(gradient_bound(large, std::vector<double>(2)), 3e-6, 1e-15);
}

TEST(GradientTolerance, WithoutTermsAGradientIsExactly0) {
  EXPECT_EQ(gradient_bound(measure(DType::kFloat16, DType::kFloat16), std::vector<double>(2)), 0);
}

// Sums are formed in float32 whatever the types: what is rounded counts once each, in squares.
TEST(GradientTolerance, CountsTheRoundingOfTheResultAndOfOut) {
  const TermNorms terms{2, 0.5};
  const auto bound_of = [&](DType inputs, DType gradient) {
    return gradient_bound(measure(inputs, gradient, terms), kUnit);
  };
  const double weights = 2 * 0x1p-8;
  EXPECT_NEAR(bound_of(DType::kBfloat16, DType::kFloat32), 3e-6 + std::hypot(weights, 6e-3 / 2),
              1e-12);
  EXPECT_NEAR(bound_of(DType::kBfloat16, DType::kBfloat16),
              3e-6 + std::hypot(weights, 3e-3, 6e-3 / 2), 1e-12);
  EXPECT_NEAR(bound_of(DType::kFloat64, DType::kFloat32), 3e-14 + 1e-6, 1e-12);
  EXPECT_NEAR(gradient_bound(measure(DType::kFloat16, DType::kFloat16, {200, 0}), kUnit),
              3e-6 + std::hypot(2 * 0x1p-11, 4e-4 / 100), 1e-8);
}

TEST(GradientTolerance, AFewElementsMayEachBeRoundedByHalfAUnit) {
  const std::vector<double> one{1};
  EXPECT_NEAR(gradient_bound(measure(DType::kFloat32, DType::kBfloat16), one), 3e-6 + 0x1p-8, 1e-9);
  EXPECT_NEAR(gradient_bound(measure(DType::kFloat32, DType::kBfloat16), kUnit), 3e-6 + 3e-3, 1e-9);
}

TEST(GradientTolerance, NumbersBelowTheNormalOnesHaveAnAbsoluteRounding) {
  const std::vector<double> tiny(100, 1e-7);
  EXPECT_NEAR(gradient_bound(measure(DType::kFloat16, DType::kFloat16), tiny),
              3e-6 + std::hypot(0x1p-11, 4e-4) + 0x1p-25 / 1e-7, 1e-6);
}

TEST(GradientTolerance, GrowsWithScoresAndWithTheSumsOfEachGradient) {
  GradientMeasure m = measure(DType::kFloat32, DType::kFloat32);
  m.summed = 4 * kBoundKeys;
  m.score = {80, 0};
  EXPECT_NEAR(gradient_bound(m, kUnit), 6e-5, 1e-15);
  const PairSizes sizes{2, 8, 4, 100, 50};
  EXPECT_EQ(longest_sum(Gradient::kQ, sizes, 1), 50);
  EXPECT_EQ(longest_sum(Gradient::kK, sizes, 1), 200);
  EXPECT_EQ(longest_sum(Gradient::kV, sizes, 1), 200);
  EXPECT_EQ(longest_sum(Gradient::kBias, sizes, 2 * 8 * 100), 50);
  EXPECT_EQ(longest_sum(Gradient::kSink, sizes, 8), 200);
}

TEST(Tolerance, ErrorsMayBeRelativeToALargerSize) {
  const std::vector<double> ref{3, 4}, x{3, 4.5}, zeros(2), noise{0, 0.5};
  EXPECT_DOUBLE_EQ(relative_error(x, ref, 10), 0.05);
  EXPECT_DOUBLE_EQ(relative_error(x, ref, 1), 0.1);
  EXPECT_DOUBLE_EQ(relative_error(noise, zeros, 10), 0.05);
  EXPECT_TRUE(within(DType::kFloat32, noise, zeros, 0.06, 10));
  EXPECT_FALSE(within(DType::kFloat32, noise, zeros, 0.04, 10));
}

TEST(Tolerance, TypesWithoutABoundAreADefect) {
  EXPECT_THROW(bound(DType::kInt32, 1, {0, 0}), Error);
}

TEST(Tolerance, RelativeErrorIsThatOfTheNorm) {
  const std::vector<double> ref{3, 4}, x{3, 4.5};
  EXPECT_DOUBLE_EQ(relative_error(x, ref), 0.1);
  const Deviation d = deviation(x, ref);
  EXPECT_EQ(d.largest, 0.5);
  EXPECT_EQ(d.worst, 1u);
  EXPECT_EQ(relative_error({}, {}), 0);
}

TEST(Tolerance, AnAllZeroReferenceMustBeMetExactly) {
  const std::vector<double> zeros(3), x{0, 1e-300, 0};
  EXPECT_EQ(relative_error(zeros, zeros), 0);
  EXPECT_EQ(relative_error(std::vector<double>{0, 1e-30, 0}, zeros), kInf);
  EXPECT_FALSE(within(DType::kFloat32, std::vector<double>{0, 1e-30, 0}, zeros, 1));
  EXPECT_TRUE(within(DType::kFloat32, zeros, zeros, 0));
}

TEST(Tolerance, KindsMustAgree) {
  const std::vector<double> ref{kNan, kInf, -kInf, 1};
  EXPECT_EQ(relative_error(ref, ref), 0);
  for (std::size_t n = 0; n < ref.size(); ++n)
    for (const double other : {0., kNan, kInf, -kInf}) {
      std::vector<double> x = ref;
      x[n] = other;
      const bool same = n < 3 && same_kind(other, ref[n]);
      EXPECT_EQ(relative_error(x, ref), same ? 0 : n == 3 && other == 0 ? 1 : kInf) << n << other;
      EXPECT_EQ(deviation(x, ref).worst, same ? 0 : n);
    }
}

TEST(Tolerance, HalfAUnitIsHalfTheDistanceToTheNeighbour) {
  EXPECT_EQ(half_unit(DType::kFloat16, 1), 0x1p-11);
  EXPECT_EQ(half_unit(DType::kFloat16, -1.999), 0x1p-11);
  EXPECT_EQ(half_unit(DType::kFloat16, 2), 0x1p-10);
  EXPECT_EQ(half_unit(DType::kFloat16, 0), 0x1p-25);
  EXPECT_EQ(half_unit(DType::kFloat16, 0x1p-20), 0x1p-25);
  EXPECT_EQ(half_unit(DType::kBfloat16, 1), 0x1p-8);
  for (const float x : {1.f, 3.f, 1e-30f, 1e-40f, 0x1p-126f, 1e38f})
    EXPECT_EQ(half_unit(DType::kFloat32, x), (std::nextafter(x, INFINITY) - x) / 2.) << x;
  for (const double x : {1., 3., 1e-300, 1e-310, 0x1p-1022})
    EXPECT_EQ(half_unit(DType::kFloat64, x), (std::nextafter(x, INFINITY) - x) / 2) << x;
}

class RoundingOf : public testing::TestWithParam<DType> {};

// Rounding alone always passes, even where the norm of few elements would not allow it.
TEST_P(RoundingOf, CorrectRoundingPassesWithABoundOfNothing) {
  for (std::uint64_t n = 0; n < 5000; ++n) {
    const std::vector<double> ref{normal(1, 0, n) * std::exp(6 * normal(1, 1, n))};
    const std::vector<double> x{rounded(GetParam(), ref[0])};
    ASSERT_TRUE(within(GetParam(), x, ref, 0)) << ref[0];
  }
}

TEST_P(RoundingOf, TwiceTheBoundFails) {
  std::vector<double> ref, x;
  const double limit = bound(GetParam(), 1, {0, 0});
  for (std::uint64_t n = 0; n < 1000; ++n) {
    ref.push_back(normal(2, 0, n));
    x.push_back(ref.back() * (1 + (n % 2 ? 2 : -2) * limit));
  }
  EXPECT_FALSE(within(GetParam(), x, ref, limit));
  for (std::size_t n = 0; n < ref.size(); ++n) x[n] = ref[n] + (x[n] - ref[n]) * 0.49;
  EXPECT_TRUE(within(GetParam(), x, ref, limit));
}

// One element of several that is wrong by more than rounding is seen by the norm alone.
TEST_P(RoundingOf, AnElementThatIsNotRoundedIsMeasured) {
  const std::vector<double> ref{1, 1};
  std::vector<double> x{1, 1 + 1.5 * half_unit(GetParam(), 1)};
  EXPECT_FALSE(within(GetParam(), x, ref, 0));
  EXPECT_TRUE(within(GetParam(), x, ref, 1e-2));
}

INSTANTIATE_TEST_SUITE_P(Tolerance, RoundingOf,
                         testing::Values(DType::kFloat16, DType::kBfloat16, DType::kFloat32),
                         [](const auto& about) { return std::string(name_of(about.param)); });

TEST(Tolerance, AReferenceThatTheTypeCannotHoldIsInfinite) {
  const std::vector<double> ref{65520, -1e6, 1};
  EXPECT_TRUE(within(DType::kFloat16, std::vector<double>{kInf, -kInf, 1}, ref, 0));
  EXPECT_FALSE(within(DType::kFloat16, std::vector<double>{65504, -kInf, 1}, ref, 1));
  EXPECT_TRUE(within(DType::kFloat16, std::vector<double>{65504}, std::vector<double>{65519}, 0));
}

}  // namespace
}  // namespace tessera::core
