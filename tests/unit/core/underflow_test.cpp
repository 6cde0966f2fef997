#include "core/underflow.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.hpp"

namespace tessera::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Gradient kEvery[] = {Gradient::kQ, Gradient::kK, Gradient::kV, Gradient::kBias,
                               Gradient::kSink};
// Rows of N(0, 1) at D = 256 and the default scale, with dropout of 1/2.
constexpr OperandSizes kNormalRows{
    .scale = 1. / 16, .dropout = 2, .q = 20, .k = 20, .v = 20, .d_out = 20, .d_lse = 4};

// [1, 1, 1, n].
Tensor row(std::vector<double>& x) {
  const auto n = std::int64_t(x.size());
  return {x.data(), {1, 1, 1, n}, {n, n, n, 1}, DType::kFloat64};
}

std::vector<double> normals(std::size_t count, double size, std::uint32_t stream) {
  std::vector<double> x(count);
  fill_normal(row(x), 1, stream);
  for (double& y : x) y *= size;
  return x;
}

TEST(Underflow, TheSmallestNormalNumberOfEachType) {
  EXPECT_EQ(smallest_normal(DType::kFloat32), double(std::numeric_limits<float>::min()));
  EXPECT_EQ(smallest_normal(DType::kBfloat16), double(std::numeric_limits<float>::min()));
  EXPECT_EQ(smallest_normal(DType::kFloat64), std::numeric_limits<double>::min());
  EXPECT_EQ(smallest_normal(DType::kFloat16), 0x1p-14);
}

TEST(Underflow, TheLongestRowIsThatOfFiniteElements) {
  std::vector<double> x{3, kNan, 4, 1, 1, 1};
  EXPECT_DOUBLE_EQ(longest_row({x.data(), {1, 2, 1, 3}, {6, 3, 3, 1}, DType::kFloat64}), 5);
  EXPECT_EQ(longest_row({}), 0);
}

TEST(Underflow, OfOutItIsAWeightOfTheSmallestNormalNumberForEachKey) {
  EXPECT_DOUBLE_EQ(lost_of_out(DType::kFloat32, 99, {.dropout = 2, .v = 3}), 700 * 0x1p-126);
  EXPECT_DOUBLE_EQ(lost_of_out(DType::kBfloat16, 99, {.dropout = 2, .v = 3}), 700 * 0x1p-126);
  EXPECT_LT(lost_of_out(DType::kFloat64, 99, kNormalRows), 1e-300);
}

// Weights that a sink makes as small as 1e-40 may be lost, and nothing that is larger.
TEST(Underflow, AnErrorOf1e30thIsNoneOfIt) {
  const std::vector<double> ref{2.9e-40, -1.5e-39}, none(2), off{2.9e-40, 1e-30}, zeros(2);
  const double lost = lost_of_out(DType::kFloat32, kBoundKeys, kNormalRows);
  EXPECT_TRUE(within(DType::kFloat32, none, ref, out_bound(1e-6, lost, ref)));
  EXPECT_FALSE(within(DType::kFloat32, off, ref, out_bound(1e-6, lost, ref)));
  EXPECT_EQ(out_bound(1e-6, lost, zeros), 1e-6);
  EXPECT_FALSE(within(DType::kFloat32, ref, zeros, out_bound(1e-6, lost, zeros)));
  const LostTerms terms{DType::kFloat32, 1025, kNormalRows, 0};
  for (const Gradient g : kEvery) {
    EXPECT_GE(lost_of_gradient(g, terms, 1025, 1), 0x1p-126);
    EXPECT_LE(lost_of_gradient(g, terms, 1025, 1), 1e-30);
  }
}

TEST(Underflow, OfNormalInputsNothingChanges) {
  const std::vector<double> ref = normals(4096, 1. / 64, 0);
  const double lost = lost_of_out(DType::kFloat32, 4096, kNormalRows);
  for (const DType t : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    EXPECT_EQ(out_bound(bound_row(t).forward, lost, ref), bound_row(t).forward);
    std::vector<double> out = ref, d_out = normals(4096, 1, 1);
    const LostTerms terms{t, 4096, kNormalRows, lost_of_reads(t, row(out), row(d_out))};
    GradientMeasure m{t, t, t, 4096, {0, 0}, {finite_norm(ref), 0.4 * finite_norm(ref)}};
    const double plain = gradient_bound(m, ref);
    for (const Gradient g : kEvery) {
      m.lost = lost_of_gradient(g, terms, m.summed, std::int64_t(ref.size()));
      if (t == DType::kFloat16)
        EXPECT_LE(gradient_bound(m, ref), plain * 1.01) << int(g);
      else
        EXPECT_EQ(gradient_bound(m, ref), plain) << int(g);
    }
  }
}

// An element of out that is no normal number has half a unit of those, or is lost itself.
TEST(Underflow, OfReadsItIsTheRoundingOfElementsBelowTheNormalOnes) {
  std::vector<double> out{1, 1e-6, -2e-9, 0, 3e-9, 0x1p-14}, d_out{9, -2, 4, 5, kNan, 7};
  EXPECT_DOUBLE_EQ(lost_of_reads(DType::kFloat16, row(out), row(d_out)), 2 * 0x1p-25 + 4 * 2e-9);
  EXPECT_EQ(lost_of_reads(DType::kBfloat16, row(out), row(d_out)), 0);
  out[0] = 0x1p-130;
  EXPECT_EQ(lost_of_reads(DType::kBfloat16, row(out), row(d_out)), 9 * 0x1p-134);
}

// A sink next to which the float16 out of a row is lost: d_sink is 0, and may be.
TEST(Underflow, AGradientMayLackWhatOutHasLost) {
  std::vector<double> out{2e-9, -1e-9}, d_out{1, 2};
  const double d_sink = -(2e-9 - 2e-9 * 0.5);
  const std::vector<double> ref{d_sink}, none{0}, off{-1e-7};
  const double terms = std::hypot(2e-9, 2e-9);
  GradientMeasure m{DType::kFloat16, DType::kFloat16, DType::kFloat32, 1, {0, 0}, {terms, terms}};
  const auto right = [&](const std::vector<double>& x) {
    return within(m.gradient, x, ref, gradient_bound(m, ref), gradient_size(m, ref));
  };
  EXPECT_FALSE(right(none));
  const double reads = lost_of_reads(DType::kFloat16, row(out), row(d_out));
  m.lost = lost_of_gradient(Gradient::kSink, {m.inputs, 1, {.v = 1, .d_out = 3}, reads}, 1, 1);
  EXPECT_TRUE(right(none));
  EXPECT_FALSE(right(off));
}

// Every pair loses 2^-126 of the largest terms, once per term of the sum; dv reads no value.
TEST(Underflow, OfGradientsByHand) {
  const OperandSizes s{
      .scale = 0.5, .dropout = 2, .q = 3, .k = 5, .v = 7, .d_out = 11, .d_lse = 13};
  const LostTerms terms{DType::kFloat32, 9, s, 0.25};
  const double least = 0x1p-126, pair = least * (2 * 2 * 11 * 7 + 13 + 1);
  const double of_row = least * 10 * (2 * 7 + 1) * 11;
  const auto lost = [&](Gradient g) { return lost_of_gradient(g, terms, 6, 4); };
  EXPECT_DOUBLE_EQ(lost(Gradient::kV), 2 * 6 * least * 2 * 12);
  EXPECT_DOUBLE_EQ(lost(Gradient::kSink), 0.25);  // beside which the weights do not show
  LostTerms weights = terms;
  weights.reads = 0;
  const auto alone = [&](Gradient g) { return lost_of_gradient(g, weights, 6, 4); };
  EXPECT_DOUBLE_EQ(alone(Gradient::kQ), 0.5 * 6 * 2 * (6 * pair + of_row));
  EXPECT_DOUBLE_EQ(alone(Gradient::kK), 0.5 * 4 * 2 * (6 * pair + std::sqrt(6.) * of_row));
  EXPECT_DOUBLE_EQ(alone(Gradient::kBias), 2 * (6 * pair + std::sqrt(6.) * of_row));
  EXPECT_DOUBLE_EQ(alone(Gradient::kSink), 2 * std::sqrt(6.) * of_row);
  EXPECT_DOUBLE_EQ(lost(Gradient::kQ), 0.5 * 6 * 0.25);
  EXPECT_DOUBLE_EQ(lost(Gradient::kK), 0.5 * 4 * 0.25);
}

}  // namespace
}  // namespace tessera::core
