// The forward definition against numbers computed by hand and against closed forms.
#include "core/reference.hpp"

#include <gtest/gtest.h>

#include "support/reference_call.hpp"

namespace tessera::test {
namespace {

using core::reference::forward;

// One query 1 of one element; scores are the keys themselves, times scale.
Call one_row(const std::vector<double>& keys, const std::vector<double>& values) {
  Call call = plain_call({1, 1, std::int64_t(keys.size()), 1, 1, 1, 1});
  call.scalars.scale = 1;
  call.q.set({0, 0, 0, 0}, 1);
  call.k.fill([&](const Index4& i) { return keys[std::size_t(i[1])]; });
  call.v.fill([&](const Index4& i) { return values[std::size_t(i[1])]; });
  return call;
}

// Runs the call and returns {out, lse} of its first row.
std::pair<double, double> first_row(const Call& call) {
  forward(call.problem());
  return {call.out.at(0), call.lse.at(0)};
}

TEST(Reference, ThreeKeysByHand) {
  const Call call = one_row({0, std::log(2.), std::log(5.)}, {8, 16, 24});
  const auto [out, lse] = first_row(call);
  EXPECT_NEAR(out, (1 * 8 + 2 * 16 + 5 * 24) / 8., 1e-14);
  EXPECT_NEAR(lse, std::log(8.), 1e-15);
}

TEST(Reference, TheScaleMultipliesTheScore) {
  Call call = one_row({0, std::log(9.)}, {0, 1});
  call.scalars.scale = 0.5f;
  const auto [out, lse] = first_row(call);
  EXPECT_NEAR(out, 3 / 4., 1e-15);
  EXPECT_NEAR(lse, std::log(4.), 1e-15);
}

// tanh(x) = 3/5 at x = log 2: a cap of 2 turns the score 2 log 2 into 6/5.
TEST(Reference, TheSoftCapByHand) {
  Call call = one_row({2 * std::log(2.)}, {1});
  call.scalars.softcap = 2;
  EXPECT_NEAR(first_row(call).second, 1.2, 1e-15);
}

// The bias and ALiBi lie outside the soft cap (TransformerEngine 3391, flash-attention 2396).
TEST(Reference, TheSoftCapComesBeforeBiasAndDistance) {
  Call call = one_row({2 * std::log(2.)}, {1});
  call.scalars.softcap = 2;
  call.bias = Array(DType::kFloat32, {1, 1, 1, 1});
  call.bias.set({}, 100);
  EXPECT_NEAR(first_row(call).second, 101.2, 1e-13);
  call.alibi = Array(DType::kFloat32, {1, 1, 1, 1});
  call.alibi.set({}, 0.5);
  call.scalars.offset = 8;
  call.scalars.alignment = core::Alignment::kOffset;
  EXPECT_NEAR(first_row(call).second, 101.2 - 0.5 * 8, 1e-13);
}

TEST(Reference, DistanceIsFromTheDiagonalOnBothSides) {
  Call call = one_row({0, 0, 0}, {1, 0, 0});
  call.alibi = Array(DType::kFloat32, {1, 1, 1, 1});
  call.alibi.set({}, 1);
  call.scalars.alignment = core::Alignment::kOffset;
  call.scalars.offset = 1;
  const double total = 1 + 2 * std::exp(-1.);
  const auto [out, lse] = first_row(call);
  EXPECT_NEAR(out, std::exp(-1.) / total, 1e-15);
  EXPECT_NEAR(lse, std::log(total), 1e-15);
}

TEST(Reference, TheSinkTakesItsShareOnce) {
  Call call = one_row({0, 0}, {10, 20});
  call.sink = Array(DType::kFloat32, {1, 1, 1, 1});
  call.sink.set({}, 0);
  const auto [out, lse] = first_row(call);
  EXPECT_NEAR(out, 10, 1e-14);
  EXPECT_NEAR(lse, std::log(3.), 1e-15);
}

TEST(Reference, ScaleZeroGivesTheMean) {
  Call call = plain_call({2, 3, 5, 4, 2, 3, 2});
  call.scalars.scale = 0;
  forward(call.problem());
  call.out.for_each([&](const Index4& i) {
    double mean = 0;
    for (std::int64_t j = 0; j < 5; ++j) mean += call.v.at(i[0], j, i[2] / 2, i[3]) / 5;
    EXPECT_NEAR(call.out.at(i[0], i[1], i[2], i[3]), mean, 1e-15);
  });
  call.lse.for_each(
      [&](const Index4& i) { EXPECT_NEAR(call.lse.at(i[0], i[1], i[2]), std::log(5.), 1e-15); });
}

// Equal scores under a causal band: the mean of the first i + 1 values, lse = log(i + 1).
TEST(Reference, UniformScoresUnderACausalBand) {
  Call call = plain_call({1, 5, 5, 1, 1, 2, 1});
  call.scalars.scale = 0;
  call.scalars.right = 0;
  forward(call.problem());
  double sum = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    sum += call.v.at(0, i);
    EXPECT_NEAR(call.out.at(0, i), sum / double(i + 1), 1e-15);
    EXPECT_NEAR(call.lse.at(0, 0, i), std::log(double(i + 1)), 1e-15);
  }
}

// One visible key: its value, bit for bit, and its score.
TEST(Reference, OneVisibleKeyGivesItsValue) {
  Call call = plain_call({1, 4, 4, 1, 1, 1, 3});
  call.scalars.left = call.scalars.right = 0;
  forward(call.problem());
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t d = 0; d < 3; ++d) EXPECT_EQ(call.out.at(0, i, 0, d), call.v.at(0, i, 0, d));
    EXPECT_NEAR(call.lse.at(0, 0, i), 0.75 * call.q.at(0, i) * call.k.at(0, i), 1e-15);
  }
}

TEST(Reference, QueryHeadsReadTheirGroup) {
  Call call = plain_call({1, 1, 1, 6, 2, 1, 1});
  forward(call.problem());
  for (std::int64_t h = 0; h < 6; ++h) EXPECT_EQ(call.out.at(0, 0, h), call.v.at(0, 0, h / 3));
}

TEST(Reference, ExpandedKeysAreOrdinary) {
  Call one = plain_call({2, 3, 4, 2, 1, 3, 2}), all = plain_call({2, 3, 4, 2, 2, 3, 2});
  one.k.expand(2, 2);
  one.v.expand(2, 2);
  one.scalars.kv_heads = 2;
  all.k.fill([&](const Index4& i) { return one.k.at(i[0], i[1], 0, i[3]); });
  all.v.fill([&](const Index4& i) { return one.v.at(i[0], i[1], 0, i[3]); });
  forward(one.problem());
  forward(all.problem());
  EXPECT_EQ(one.out.elements(), all.out.elements());
}

TEST(Reference, DropoutIsAfterTheNormalisation) {
  Call call = plain_call({1, 1, 8, 1, 1, 2, 1}, 3);
  forward(call.problem());
  const double full = call.lse.at(0);
  call.scalars.dropout = {0.5f, 7, 2};
  forward(call.problem());
  EXPECT_EQ(call.lse.at(0), full);
  double want = 0;
  for (std::int64_t j = 0; j < 8; ++j) {
    const double s = 0.75 * (call.q.at(0, 0, 0, 0) * call.k.at(0, j, 0, 0) +
                             call.q.at(0, 0, 0, 1) * call.k.at(0, j, 0, 1));
    if (call.scalars.dropout.keeps(0, 0, j)) want += 2 * std::exp(s - full) * call.v.at(0, j);
  }
  EXPECT_NEAR(call.out.at(0), want, 1e-14);
}

TEST(Reference, LseIsOptional) {
  Call call = plain_call();
  forward(call.problem());
  Call without = call;
  without.lse = Array();
  forward(without.problem());
  EXPECT_EQ(without.out.elements(), call.out.elements());
}

TEST(Reference, ReturnsTheLargestScoreThatWeighs) {
  Call call = one_row({-3, 2, 1}, {1, 1, 1});
  EXPECT_EQ(forward(call.problem()), 3);
  call = one_row({-3.4e38, 2, 1}, {1, 1, 1});  // its weight is 0 in every precision
  EXPECT_EQ(forward(call.problem()), 2);
  call = one_row({kNan, 2, kInf}, {1, 1, 1});
  EXPECT_EQ(forward(call.problem()), 2);
  call = one_row({-3.4e38, -3.4e38}, {1, 1});
  EXPECT_EQ(forward(call.problem()), 3.4e38);
  EXPECT_EQ(forward(plain_call({1, 2, 0, 1, 1, 1, 1}).problem()), 0);
}

}  // namespace
}  // namespace tessera::test
