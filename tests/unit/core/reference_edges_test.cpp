// The table of edges, row by row, for the forward definition.
#include <gtest/gtest.h>

#include "core/reference.hpp"
#include "support/reference_call.hpp"

namespace tessera::test {
namespace {

using core::reference::forward;

constexpr double kLowest = -3.4028234663852886e38;  // of float32

void expect_empty_row(const Call& call, std::int64_t b, std::int64_t i, double lse = -kInf) {
  for (std::int64_t h = 0; h < call.scalars.heads; ++h) {
    EXPECT_EQ(call.lse.at(b, h, i), lse);
    for (std::int64_t d = 0; d < call.scalars.value_dim; ++d) {
      EXPECT_EQ(call.out.at(b, i, h, d), 0);
      EXPECT_FALSE(std::signbit(call.out.at(b, i, h, d)));
    }
  }
}

Array sink_of(const Call& call, double logit) {
  Array sink(DType::kFloat32, {call.scalars.heads, 1, 1, 1});
  sink.fill([&](const Index4&) { return logit; });
  return sink;
}

Array bias_of(const Call& call, double value) {
  Array bias(DType::kFloat32, call.pairs);
  bias.fill([&](const Index4&) { return value; });
  return bias;
}

bool row_is_nan(const Call& call, std::int64_t i) {
  return std::isnan(call.out.at(0, i)) && std::isnan(call.lse.at(0, 0, i));
}

// ---- Rows without a visible key ----

class EmptyRows : public testing::TestWithParam<int> {};

// Hides every key from query 1 of batch 0 (or from more), one way after the other.
Call hide_row(int way) {
  Call call = plain_call();
  if (way == 0) {
    call.mask = Array(DType::kBool, {1, 1, 4, 1});
    call.mask.fill([](const Index4& i) { return i[2] != 1; });
  }
  if (way == 1) call.kv_lengths = integers({0, 6});
  if (way == 2) call.kv_starts = integers({6, 0});
  if (way == 3) {  // more queries than keys: the first rows see nothing (flashinfer 4452)
    call.kv_lengths = integers({2, 2});
    call.scalars.right = 0;
    call.scalars.alignment = core::Alignment::kBottomRight;
  }
  if (way == 4) call.bias = bias_of(call, -kInf);
  if (way == 5) {  // the mask and the band hide every key together, neither does alone (burn 4697)
    call.scalars.right = 0;
    call.mask = Array(DType::kBool, {1, 1, 4, 6});
    call.mask.fill([](const Index4& i) { return i[3] >= 2; });
  }
  if (way == 6) {  // every score is -inf by itself
    call.q.fill([](const Index4&) { return 1; });
    call.k.fill([](const Index4&) { return -kInf; });
  }
  return call;
}

TEST_P(EmptyRows, AreZeroAndMinusInfinity) {
  const Call call = hide_row(GetParam());
  forward(call.problem());
  expect_empty_row(call, 0, 1);
}

TEST_P(EmptyRows, WithASinkHaveItsLogit) {
  Call call = hide_row(GetParam());
  call.sink = sink_of(call, 0.25);
  forward(call.problem());
  expect_empty_row(call, 0, 1, 0.25);
}

TEST_P(EmptyRows, AreEmptyWhateverTheQueryHolds) {
  Call call = hide_row(GetParam());
  if (GetParam() == 6) return;  // there, the query decides
  for (std::int64_t h = 0; h < 2; ++h) call.q.set({0, 1, h, 0}, kNan);
  forward(call.problem());
  expect_empty_row(call, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(ReferenceEdges, EmptyRows, testing::Range(0, 7));

TEST(ReferenceEdges, ASinkOfMinusInfinityIsNone) {
  Call call = plain_call();
  forward(call.problem());
  Call with_sink = call;
  with_sink.sink = sink_of(call, -kInf);
  forward(with_sink.problem());
  EXPECT_EQ(with_sink.out.elements(), call.out.elements());
  EXPECT_EQ(with_sink.lse.elements(), call.lse.elements());
}

// ---- States ----

TEST(ReferenceEdges, BothInfinitiesOfAStateMeanEmpty) {
  Call call = plain_call();
  forward(call.problem());
  for (const double lse : {kInf, -kInf}) {
    Call from_state = call;
    from_state.state_out = Array(DType::kFloat32, call.out.shape());  // all NaN
    from_state.state_lse = Array(DType::kFloat32, call.lse.shape());
    from_state.state_lse.fill([&](const Index4&) { return lse; });
    forward(from_state.problem());
    EXPECT_EQ(from_state.out.elements(), call.out.elements());
    EXPECT_EQ(from_state.lse.elements(), call.lse.elements());
    from_state.kv_lengths = integers({0, 0});
    forward(from_state.problem());
    expect_empty_row(from_state, 0, 0);
  }
}

TEST(ReferenceEdges, AStateAloneIsHandedOn) {
  Call call = plain_call({1, 2, 0, 1, 1, 2, 2});
  call.state_out = Array(DType::kFloat32, call.out.shape());
  call.state_lse = Array(DType::kFloat32, call.lse.shape());
  call.state_out.fill([](const Index4& i) { return double(i[1] * 2 + i[3]); });
  call.state_lse.fill([](const Index4& i) { return double(i[2]); });
  forward(call.problem());
  EXPECT_EQ(call.out.at(0, 1, 0, 1), 3);
  EXPECT_EQ(call.lse.at(0, 0, 1), 1);
}

// ---- NaN and infinity ----

// A causal band: key 3 is seen by row 3 alone.
Call causal_with(double in_k, double in_v) {
  Call call = plain_call({1, 4, 4, 1, 1, 2, 2});
  call.scalars.right = 0;
  call.k.set({0, 3, 0, 1}, in_k);
  call.v.set({0, 3, 0, 0}, in_v);
  return call;
}

TEST(ReferenceEdges, RowsThatDoNotSeeAKeyAreUnaffectedByIt) {
  const Call clean = causal_with(0.5, 0.5);
  forward(clean.problem());
  for (const double bad : {kNan, kInf, -kInf}) {
    const Call call = causal_with(bad, bad);
    forward(call.problem());
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(call.lse.at(0, 0, i), clean.lse.at(0, 0, i));
      for (std::int64_t d = 0; d < 2; ++d)
        EXPECT_EQ(call.out.at(0, i, 0, d), clean.out.at(0, i, 0, d));
    }
    EXPECT_NE(call.out.at(0, 3), clean.out.at(0, 3));
  }
}

TEST(ReferenceEdges, AVisibleNaNPropagates) {
  Call call = causal_with(kNan, 1);
  forward(call.problem());
  EXPECT_TRUE(row_is_nan(call, 3));

  call = causal_with(1, kNan);
  forward(call.problem());
  EXPECT_TRUE(std::isnan(call.out.at(0, 3, 0, 0)));
  EXPECT_TRUE(std::isfinite(call.out.at(0, 3, 0, 1)));  // the other column
  EXPECT_TRUE(std::isfinite(call.lse.at(0, 0, 3)));
}

// A NaN in q is a NaN in its row, never a row of zeros (pytorch 141128).
TEST(ReferenceEdges, ANaNInTheQueryIsNotMistakenForMasked) {
  Call call = causal_with(1, 1);
  call.q.set({0, 2, 0, 0}, kNan);
  forward(call.problem());
  EXPECT_TRUE(row_is_nan(call, 2));
  EXPECT_FALSE(row_is_nan(call, 1) || row_is_nan(call, 3));
}

TEST(ReferenceEdges, ANaNOrInfinityInABiasIsVisible) {
  for (const double bad : {kNan, kInf}) {
    Call call = causal_with(1, 1);
    call.bias = bias_of(call, 0);
    call.bias.set({0, 0, 1, 0}, bad);
    call.bias.set({0, 0, 0, 3}, bad);  // hidden by the band
    forward(call.problem());
    EXPECT_TRUE(row_is_nan(call, 1)) << bad;
    EXPECT_FALSE(row_is_nan(call, 0) || row_is_nan(call, 2)) << bad;
  }
}

TEST(ReferenceEdges, ABiasOfMinusInfinityHidesWhateverTheKeyHolds) {
  Call call = plain_call({1, 1, 3, 1, 1, 2, 1});
  call.bias = bias_of(call, 0);
  call.bias.set({0, 0, 0, 1}, -kInf);
  forward(call.problem());
  for (const double bad : {kNan, kInf, -kInf}) {
    Call poisoned = call;
    poisoned.k.set({0, 1, 0, 0}, bad);
    poisoned.v.set({0, 1, 0, 0}, bad);
    forward(poisoned.problem());
    EXPECT_EQ(poisoned.out.elements(), call.out.elements());
    EXPECT_EQ(poisoned.lse.elements(), call.lse.elements());
  }
}

TEST(ReferenceEdges, ADroppedValueIsNotRead) {
  Call call = plain_call({1, 1, 16, 1, 1, 2, 1});
  call.scalars.dropout = {0.5f, 1, 0};
  forward(call.problem());
  const double clean = call.out.at(0);
  for (std::int64_t j = 0; j < 16; ++j)
    if (!call.scalars.dropout.keeps(0, 0, j)) call.v.set({0, j, 0, 0}, kNan);
  forward(call.problem());
  EXPECT_EQ(call.out.at(0), clean);
}

TEST(ReferenceEdges, InfiniteValuesAreOrdinary) {
  Call call = causal_with(1, kInf);
  forward(call.problem());
  EXPECT_EQ(call.out.at(0, 3), kInf);
}

// ---- Low and large scores ----

// Three equal scores, however low: the mean (pytorch 110213).
TEST(ReferenceEdges, TheLowestFiniteBiasIsVisible) {
  for (const double low : {kLowest, -1e4, -65504.}) {
    Call call = plain_call({1, 1, 3, 1, 1, 1, 1});
    call.scalars.scale = 0;
    call.bias = bias_of(call, low);
    forward(call.problem());
    EXPECT_NEAR(call.out.at(0), (call.v.at(0, 0) + call.v.at(0, 1) + call.v.at(0, 2)) / 3, 1e-15);
    EXPECT_DOUBLE_EQ(call.lse.at(0), low + std::log(3.));
  }
}

TEST(ReferenceEdges, LowestBiasBesideOrdinaryScoresWeighsNothing) {
  Call call = plain_call({1, 1, 6, 1, 1, 2, 2});
  call.bias = bias_of(call, 0);
  for (std::int64_t j = 0; j < 4; ++j) call.bias.set({0, 0, 0, j}, kLowest);
  Call rest = call;
  rest.kv_starts = integers({4});
  forward(call.problem());
  forward(rest.problem());
  EXPECT_EQ(call.out.elements(), rest.out.elements());
}

TEST(ReferenceEdges, HugeScoresStayFinite) {
  for (const double size : {1e3, 1e19, 1e38}) {
    Call call = plain_call({1, 1, 3, 1, 1, 1, 1});
    call.scalars.scale = 1;
    call.q.set({}, size);
    for (const double sign : {1., -1.}) {
      call.k.fill([&](const Index4& i) { return sign * double(i[1] + 1); });
      forward(call.problem());
      EXPECT_EQ(call.out.at(0), call.v.at(0, sign > 0 ? 2 : 0));
      EXPECT_EQ(call.lse.at(0), sign > 0 ? 3 * size : -size);
    }
  }
}

// ---- Sizes of zero ----

TEST(ReferenceEdges, NoKeys) {
  Call call = plain_call({2, 3, 0, 2, 1, 2, 2});
  EXPECT_EQ(forward(call.problem()), 0);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t i = 0; i < 3; ++i) expect_empty_row(call, b, i);
  core::Problem p = call.problem();
  p.k.data = p.v.data = nullptr;  // what an empty tensor may hold
  EXPECT_EQ(forward(p), 0);
}

TEST(ReferenceEdges, NoBatchesQueriesOrHeads) {
  for (const Sizes& sizes : {Sizes{0, 3, 2, 1, 1, 1, 1}, Sizes{1, 0, 2, 1, 1, 1, 1},
                             Sizes{1, 3, 2, 0, 0, 1, 1}, Sizes{1, 3, 2, 0, 1, 1, 1}}) {
    const Call call = plain_call(sizes);
    EXPECT_EQ(forward(call.problem()), 0);
    EXPECT_TRUE(call.out.surroundings_intact());
    core::Problem p = call.problem();
    p.q.data = p.out.data = p.lse.data = nullptr;
    EXPECT_EQ(forward(p), 0);
  }
}

// ---- Packed sequences and pages ----

TEST(ReferenceEdges, RowsOfNoSequenceAreZero) {
  Call call = plain_call({2, 4, 6, 2, 1, 3, 2});
  call.cu_seqlens_q = integers({1, 3, 6});
  call.cu_seqlens_k = integers({0, 2, 5});
  call.seqused_q = integers({1, 3});
  lay_out(call, {1, 8, 2, 3}, {1, 6, 1, 3}, 1);
  forward(call.problem());
  for (const std::int64_t row : {0, 2, 6, 7}) expect_empty_row(call, 0, row);
  for (const std::int64_t row : {1, 3, 4, 5}) EXPECT_TRUE(std::isfinite(call.lse.at(0, 0, row)));
}

TEST(ReferenceEdges, AnEmptySequenceBetweenOthers) {
  Call call = plain_call({3, 4, 6, 1, 1, 2, 1});
  call.cu_seqlens_q = integers({0, 2, 3, 4});
  call.cu_seqlens_k = integers({0, 3, 3, 4});
  lay_out(call, {1, 4, 1, 2}, {1, 4, 1, 2}, 1);
  forward(call.problem());
  expect_empty_row(call, 0, 2);
  EXPECT_EQ(call.out.at(0, 3), call.v.at(0, 3));
}

// Page 4, length 13: three slots of the last page hold NaN (flashinfer 941).
TEST(ReferenceEdges, UnusedPageSlotsAreNotRead) {
  Call call = plain_call({1, 2, 16, 1, 1, 2, 1});
  call.block_table = Array(DType::kInt32, {1, 4, 1, 1});
  call.block_table.fill([](const Index4& i) { return double(3 - i[1]); });
  call.kv_lengths = integers({13});
  lay_out(call, {1, 2, 1, 2}, {4, 4, 1, 2}, 1);
  for (std::int64_t slot = 1; slot < 4; ++slot) {
    call.k.set({0, slot, 0, 0}, kNan);
    call.v.set({0, slot, 0, 0}, kNan);
  }
  forward(call.problem());
  EXPECT_TRUE(std::isfinite(call.out.at(0, 0)) && std::isfinite(call.out.at(0, 1)));
}

// Equal scores over 16 keys: the mean, whatever a tile pads (flashinfer 3716).
TEST(ReferenceEdges, AQueryOfZerosAveragesItsKeys) {
  Call call = plain_call({1, 1, 16, 1, 1, 4, 1});
  call.q.fill([](const Index4&) { return 0; });
  forward(call.problem());
  double mean = 0;
  for (std::int64_t j = 0; j < 16; ++j) mean += call.v.at(0, j) / 16;
  EXPECT_NEAR(call.out.at(0), mean, 1e-15);
}

// ---- Bands ----

TEST(ReferenceEdges, BandsAtTheEndsOfTheIntegers) {
  for (const std::int64_t offset : {core::Band::kUnbounded, -core::Band::kUnbounded}) {
    Call call = plain_call();
    call.scalars.alignment = core::Alignment::kOffset;
    call.scalars.offset = offset;
    forward(call.problem());
    EXPECT_TRUE(std::isfinite(call.out.at(0)));
    call.scalars.left = call.scalars.right = 1;
    forward(call.problem());
    expect_empty_row(call, 0, 0);
  }
}

}  // namespace
}  // namespace tessera::test
