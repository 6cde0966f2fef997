// The backward definition against finite differences of the forward one, and its edges.
#include <gtest/gtest.h>

#include "support/reference_gradients.hpp"
#include "support/reference_matrix.hpp"

namespace tessera::test {
namespace {

using core::reference::backward;

void expect_all_zero(const Array& array) {
  array.for_each([&](const Index4& i) { EXPECT_EQ(array.at(i[0], i[1], i[2], i[3]), 0); });
}

void expect_near(double got, double want, const char* name) {
  EXPECT_NEAR(got, want, 2e-8 * (1 + std::abs(want))) << "gradient of " << name;
}

void check_entry(const Call& call, const Backward& g, const Operand& operand, const Index4& at) {
  const double gradient = (g.*operand.gradient).at(at[0], at[1], at[2], at[3]);
  if (std::isinf((call.*operand.value).at(at[0], at[1], at[2], at[3]))) {
    EXPECT_EQ(gradient, 0) << operand.name;  // -inf hides, and stays
    return;
  }
  Array direction(DType::kFloat64, (call.*operand.value).shape());
  direction.fill([&](const Index4& i) { return i == at ? 1 : 0; });
  expect_near(gradient, difference(call, g, operand, direction), operand.name);
}

void check_every_entry(const Call& call, std::uint64_t seed) {
  const Backward g = every_gradient(call, seed);
  backward(call.problem(), g.gradients());
  for (const Operand& operand : kOperands)
    (call.*operand.value).for_each([&](const Index4& at) {
      if ((g.*operand.gradient).present()) check_entry(call, g, operand, at);
    });
}

// All operands at once, along random directions.
void check_directions(const Call& call, std::uint64_t seed) {
  const Backward g = every_gradient(call, seed);
  backward(call.problem(), g.gradients());
  for (std::uint32_t n = 0; n < std::size(kOperands); ++n) {
    const Operand& operand = kOperands[n];
    if (!(g.*operand.gradient).present()) continue;
    Array direction(DType::kFloat64, (call.*operand.value).shape());
    fill_with_normal(direction, seed, 20 + n);
    expect_near(dot(direction, g.*operand.gradient), difference(call, g, operand, direction),
                operand.name);
  }
}

TEST(ReferenceBackward, EachOptionAloneEntryByEntry) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    check_every_entry(call_with(0, seed), seed);
    for (unsigned option = 1; option < kEveryOption; option *= 2) {
      SCOPED_TRACE(name_of_options(option) + " seed " + std::to_string(seed));
      check_every_entry(call_with(option, seed), seed);
    }
  }
}

TEST(ReferenceBackward, EveryPairOfOptions) {
  for (unsigned a = 1; a < kEveryOption; a *= 2)
    for (unsigned b = 1; b < a; b *= 2)
      for (std::uint64_t seed = 0; seed < 2; ++seed) {
        SCOPED_TRACE(name_of_options(a | b) + " seed " + std::to_string(seed));
        check_directions(call_with(a | b, seed), seed);
      }
}

TEST(ReferenceBackward, AnyCompanyOfOptions) {
  core::Draws draws(12);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto options = unsigned(draws.between(0, kEveryOption));
    SCOPED_TRACE(name_of_options(options) + " seed " + std::to_string(seed));
    check_directions(call_with(options, seed), seed);
  }
}

// Each way in which a bias can be broadcast.
class BiasGradient : public testing::TestWithParam<unsigned> {};

TEST_P(BiasGradient, IsSummedOverWhatItIsBroadcastTo) {
  Call call = plain_call({2, 3, 4, 4, 2, 2, 3}, GetParam());
  call.scalars.right = 1;
  call.bias = OptionWriter::pair_array(call, DType::kFloat64, GetParam());
  fill_with_normal(call.bias, 1, 5);
  check_every_entry(call, GetParam());
}

// The sums, from the gradient of a bias that is given in full.
TEST_P(BiasGradient, IsTheSumOfTheFullOne) {
  Call call = plain_call({2, 3, 4, 4, 2, 2, 3}, GetParam());
  call.bias = OptionWriter::pair_array(call, DType::kFloat64, GetParam());
  fill_with_normal(call.bias, 1, 5);
  const Backward narrow = every_gradient(call, 1);
  backward(call.problem(), narrow.gradients());
  Array full(DType::kFloat64, call.pairs), sums(DType::kFloat64, call.bias.shape());
  full.fill(
      [&, small = call.bias](const Index4& i) { return broadcast(small, call.pairs).load(i); });
  call.bias = full;
  const Backward wide = every_gradient(call, 1);
  backward(call.problem(), wide.gradients());
  sums.fill([](const Index4&) { return 0; });
  full.for_each([&](Index4 i) {
    const double d = wide.d_bias.at(i[0], i[1], i[2], i[3]);
    for (std::size_t n = 0; n < 4; ++n) i[n] = sums.shape()[n] == 1 ? 0 : i[n];
    sums.set(i, sums.at(i[0], i[1], i[2], i[3]) + d);
  });
  sums.for_each([&](const Index4& i) {
    EXPECT_NEAR(narrow.d_bias.at(i[0], i[1], i[2], i[3]), sums.at(i[0], i[1], i[2], i[3]), 1e-13);
  });
}

INSTANTIATE_TEST_SUITE_P(ReferenceBackward, BiasGradient, testing::Range(0u, 16u));

// ---- By hand ----

// Two keys of weights 1/2 and values 0 and 1: dP = (0, 1), O = 1/2, dS = (-1/4, 1/4).
TEST(ReferenceBackward, TwoKeysByHand) {
  Call call = plain_call({1, 1, 2, 1, 1, 1, 1});
  call.scalars.scale = 2;
  call.q.set({}, 0);
  call.k.fill([](const Index4& i) { return i[1] == 0 ? 3 : 5; });
  call.v.fill([](const Index4& i) { return double(i[1]); });
  Backward g = every_gradient(call, 1);
  g.d_out.set({}, 1);
  g.d_lse.set({}, 0);
  backward(call.problem(), g.gradients());
  EXPECT_NEAR(g.dq.at(0), 2 * (-3 / 4. + 5 / 4.), 1e-15);
  EXPECT_EQ(g.dk.at(0, 0), 0);
  EXPECT_NEAR(g.dv.at(0, 0), 0.5, 1e-15);
  EXPECT_NEAR(g.dv.at(0, 1), 0.5, 1e-15);
  g.d_out.set({}, 0);
  g.d_lse.set({}, 1);  // d lse / d s_j = P_j
  backward(call.problem(), g.gradients());
  EXPECT_NEAR(g.dq.at(0), 2 * (3 / 2. + 5 / 2.), 1e-15);
  EXPECT_EQ(g.dv.at(0, 1), 0);
}

// d (sum over all gradients of scores) = 0: adding a constant to every score changes nothing.
TEST(ReferenceBackward, RowsOfTheBiasGradientSumToTheGradientOfLse) {
  Call call = plain_call({2, 3, 5, 2, 1, 3, 2});
  call.bias = OptionWriter::pair_array(call, DType::kFloat64, 15);
  fill_with_normal(call.bias, 1, 5);
  const Backward g = every_gradient(call, 2);
  backward(call.problem(), g.gradients());
  g.d_lse.for_each([&](const Index4& i) {
    double sum = 0;
    for (std::int64_t j = 0; j < 5; ++j) sum += g.d_bias.at(i[0], i[1], i[2], j);
    EXPECT_NEAR(sum, g.d_lse.at(i[0], i[1], i[2]), 1e-13);
  });
}

// ---- What is asked for ----

TEST(ReferenceBackward, AnySubsetGivesTheSameBits) {
  const Call call = call_with(kBias | kSink | kDropout | kSoftcap, 6);
  const Backward all = every_gradient(call, 1);
  backward(call.problem(), all.gradients());
  for (unsigned subset = 0; subset < 32; ++subset) {
    Backward some = every_gradient(call, 1);
    for (unsigned n = 0; n < 5; ++n)
      if (!(subset >> n & 1u)) some.*kOperands[n].gradient = Array();
    backward(call.problem(), some.gradients());
    for (unsigned n = 0; n < 5; ++n) {
      const Array& gradient = some.*kOperands[n].gradient;
      if (!gradient.present()) continue;
      EXPECT_EQ(gradient.elements(), (all.*kOperands[n].gradient).elements());
    }
  }
}

TEST(ReferenceBackward, NoGradientOfLseIsAGradientOfZero) {
  const Call call = call_with(kSink, 7);
  Backward zero = every_gradient(call, 1), none = every_gradient(call, 1);
  zero.d_lse.fill([](const Index4&) { return 0; });
  none.d_lse = Array();
  backward(call.problem(), zero.gradients());
  backward(call.problem(), none.gradients());
  for (const Operand& operand : kOperands)
    EXPECT_EQ((zero.*operand.gradient).elements(), (none.*operand.gradient).elements());
}

// Strides of their own, dO expanded by stride 0 among them (flash-attention 355).
TEST(ReferenceBackward, LayoutsAndTypesOfGradientsDoNotMatter) {
  const Call call = call_with(kSoftcap, 8);
  Backward dense = every_gradient(call, 1);
  dense.d_out.fill([](const Index4& i) { return double(i[0] + i[2]); });
  backward(call.problem(), dense.gradients());
  Backward other = every_gradient(call, 1);
  other.d_out = Array(DType::kFloat64, {call.out.shape()[0], 1, call.out.shape()[2], 1});
  other.d_out.fill([](const Index4& i) { return double(i[0] + i[2]); });
  other.d_out.expand(1, call.out.shape()[1]);
  other.d_out.expand(3, call.out.shape()[3]);
  other.dq = Array(DType::kFloat64, call.q.shape(), Layout::kTransposed);
  other.dk = Array(DType::kFloat16, call.k.shape(), Layout::kSpread);
  other.dv = Array(DType::kFloat64, call.v.shape(), Layout::kReversed);
  backward(call.problem(), other.gradients());
  EXPECT_EQ(other.dq.elements(), dense.dq.elements());
  EXPECT_EQ(other.dk.elements(), dense.dk.converted(DType::kFloat16).elements());
  EXPECT_EQ(other.dv.elements(), dense.dv.elements());
  EXPECT_TRUE(other.dq.surroundings_intact() && other.dk.surroundings_intact() &&
              other.dv.surroundings_intact());
}

// In double, and rounded once.
TEST(ReferenceBackward, AccumulatingAddsToWhatIsThere) {
  const Call call = call_with(kEveryOption - 1, 9);
  const Backward written = every_gradient(call, 1);
  backward(call.problem(), written.gradients());
  Backward added = every_gradient(call, 1);
  std::uint32_t stream = 30;
  for (const Operand& operand : kOperands) fill_with_normal(added.*operand.gradient, 1, stream++);
  const Backward before = added;
  core::Gradients g = added.gradients();
  g.accumulate = true;
  backward(call.problem(), g);
  for (const Operand& operand : kOperands)
    (written.*operand.gradient).for_each([&](const Index4& i) {
      const auto at = [&](const Backward& b) {
        return (b.*operand.gradient).at(i[0], i[1], i[2], i[3]);
      };
      EXPECT_EQ(at(added), at(written) + at(before)) << operand.name;
    });
}

// A bias that is expanded by stride 0: its gradient in full, or summed.
TEST(ReferenceBackward, AnExpandedBiasMayHaveASummedGradient) {
  Call call = plain_call({2, 3, 4, 4, 2, 2, 3});
  call.bias = OptionWriter::pair_array(call, DType::kFloat64, 15);
  fill_with_normal(call.bias, 1, 5);
  const Backward full = every_gradient(call, 1);
  Backward summed = every_gradient(call, 1);
  summed.d_bias = Array(DType::kFloat64, {2, 1, 3, 4});
  backward(call.problem(), full.gradients());
  backward(call.problem(), summed.gradients());
  summed.d_bias.for_each([&](const Index4& i) {
    double sum = 0;
    for (std::int64_t h = 0; h < 4; ++h) sum += full.d_bias.at(i[0], h, i[2], i[3]);
    EXPECT_NEAR(summed.d_bias.at(i[0], 0, i[2], i[3]), sum, 1e-13);
  });
}

// ---- Edges ----

// Keys, values and gradients that nobody reads hold NaN; what nobody attends has the gradient 0.
TEST(ReferenceBackward, UnseenMemoryIsNotReadAndHasNoGradient) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const unsigned options = unsigned(seed * 2477 % kEveryOption);
    SCOPED_TRACE(name_of_options(options) + " seed " + std::to_string(seed));
    const Call call = call_with(options, seed);
    const MatrixDefinition definition(call);
    const Backward clean = every_gradient(call, seed);
    backward(call.problem(), clean.gradients());
    Call poisoned = call;
    const auto unseen = [&](const Index4& i) {
      return !definition.seen.contains({i[0], i[1], i[2]});
    };
    poisoned.k.for_each([&](const Index4& i) {
      if (unseen(i)) poisoned.k.set(i, kNan);
    });
    poisoned.v.for_each([&](const Index4& i) {
      if (unseen(i)) poisoned.v.set(i, kNan);
    });
    const Backward g = every_gradient(poisoned, seed);
    backward(poisoned.problem(), g.gradients());
    for (const Operand& operand : kOperands)
      EXPECT_EQ((g.*operand.gradient).elements(), (clean.*operand.gradient).elements());
    for (const Array* gradient : {&g.dk, &g.dv})
      gradient->for_each([&](const Index4& i) {
        EXPECT_TRUE(!unseen(i) || gradient->at(i[0], i[1], i[2], i[3]) == 0);
      });
  }
}

TEST(ReferenceBackward, RowsWithoutKeysHaveNoGradientWhateverArrives) {
  Call call = plain_call({1, 3, 4, 2, 1, 2, 2});
  call.mask = Array(DType::kBool, {1, 1, 3, 1});
  call.mask.fill([](const Index4& i) { return i[2] != 1; });
  call.bias = OptionWriter::pair_array(call, DType::kFloat64, 15);
  call.bias.fill([](const Index4&) { return 0; });
  const Backward clean = every_gradient(call, 1);
  backward(call.problem(), clean.gradients());
  Backward g = every_gradient(call, 1);
  for (std::int64_t h = 0; h < 2; ++h) {
    g.d_out.set({0, 1, h, 0}, kNan);
    g.d_lse.set({0, h, 1, 0}, kNan);
    call.q.set({0, 1, h, 0}, kNan);
  }
  backward(call.problem(), g.gradients());
  for (const Operand& operand : kOperands)
    EXPECT_EQ((g.*operand.gradient).elements(), (clean.*operand.gradient).elements());
  for (std::int64_t d = 0; d < 2; ++d) EXPECT_EQ(g.dq.at(0, 1, 0, d), 0);
  for (std::int64_t j = 0; j < 4; ++j) EXPECT_EQ(g.d_bias.at(0, 0, 1, j), 0);
}

// lse is the sink there, so its gradient goes to the sink, and d_out goes nowhere.
TEST(ReferenceBackward, RowsWithASinkAlone) {
  Call call = plain_call({1, 1, 0, 2, 1, 2, 2});
  call.sink = Array(DType::kFloat64, {2, 1, 1, 1});
  fill_with_normal(call.sink, 1, 6);
  Backward g = every_gradient(call, 1);
  g.d_out.fill([](const Index4&) { return kNan; });
  backward(call.problem(), g.gradients());
  for (std::int64_t h = 0; h < 2; ++h) EXPECT_EQ(g.d_sink.at(h), g.d_lse.at(0, h));
  expect_all_zero(g.dq);
}

TEST(ReferenceBackward, ASinkOfMinusInfinityHasNoGradient) {
  Call call = plain_call({1, 2, 3, 1, 1, 2, 2});
  call.sink = Array(DType::kFloat64, {1, 1, 1, 1});
  call.sink.set({}, -kInf);
  call.v.set({0, 1, 0, 0}, kNan);
  const Backward g = every_gradient(call, 1);
  backward(call.problem(), g.gradients());
  EXPECT_EQ(g.d_sink.at(0), 0);
}

// <q, k> = -inf: the key weighs nothing, and 0 * inf must not be formed.
TEST(ReferenceBackward, AScoreOfMinusInfinityHasNoGradient) {
  Call call = plain_call({1, 2, 3, 1, 1, 2, 2});
  call.q.fill([](const Index4&) { return 1; });
  Call shorter = call;
  shorter.kv_lengths = integers({2});
  for (std::int64_t d = 0; d < 2; ++d) call.k.set({0, 2, 0, d}, -kInf);
  call.v.set({0, 2, 0, 0}, kNan);
  const Backward g = every_gradient(call, 1), want = every_gradient(call, 1);
  backward(call.problem(), g.gradients());
  backward(shorter.problem(), want.gradients());
  for (const Operand& operand : {kOperands[0], kOperands[1], kOperands[2]})
    EXPECT_EQ((g.*operand.gradient).elements(), (want.*operand.gradient).elements());
}

// Under a causal band row 1 and key 2 never meet: NaN in one does not reach the other.
TEST(ReferenceBackward, NaNReachesOnlyWhatSeesIt) {
  Call call = plain_call({1, 4, 4, 1, 1, 2, 2});
  call.scalars.right = 0;
  const auto gradients = [&](Backward g) {
    backward(call.problem(), g.gradients());
    return g;
  };
  Backward bad_row = every_gradient(call, 1);
  bad_row.d_out.set({0, 1, 0, 0}, kNan);
  const Backward by_row = gradients(bad_row);
  for (std::int64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(std::isnan(by_row.dq.at(0, n)), n == 1) << n;
    EXPECT_EQ(std::isnan(by_row.dk.at(0, n)), n <= 1) << n;
    EXPECT_EQ(std::isnan(by_row.dv.at(0, n)), n <= 1) << n;
  }
  call.q.set({0, 1, 0, 0}, kNan);
  const Backward by_query = gradients(every_gradient(call, 1));
  for (std::int64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(std::isnan(by_query.dq.at(0, n)), n == 1) << n;
    EXPECT_EQ(std::isnan(by_query.dk.at(0, n)), n <= 1) << n;
    EXPECT_EQ(std::isnan(by_query.dv.at(0, n)), n <= 1) << n;
  }
  for (const auto array : {&Call::k, &Call::v}) {
    Call other = plain_call({1, 4, 4, 1, 1, 2, 2});
    other.scalars.right = 0;
    (other.*array).set({0, 2, 0, 0}, kNan);
    const Backward by_key = every_gradient(other, 1);
    backward(other.problem(), by_key.gradients());
    for (std::int64_t n = 0; n < 4; ++n) EXPECT_EQ(std::isnan(by_key.dq.at(0, n)), n >= 2) << n;
  }
}

TEST(ReferenceBackward, ADroppedValueIsNotRead) {
  Call call = plain_call({1, 1, 16, 1, 1, 2, 1});
  call.scalars.dropout = {0.5f, 1, 0};
  const Backward clean = every_gradient(call, 1);
  backward(call.problem(), clean.gradients());
  for (std::int64_t j = 0; j < 16; ++j)
    if (!call.scalars.dropout.keeps(0, 0, j)) call.v.set({0, j, 0, 0}, kNan);
  const Backward g = every_gradient(call, 1);
  backward(call.problem(), g.gradients());
  for (const Operand& operand : {kOperands[0], kOperands[1], kOperands[2]})
    EXPECT_EQ((g.*operand.gradient).elements(), (clean.*operand.gradient).elements());
}

TEST(ReferenceBackward, SizesOfZero) {
  for (const Sizes& sizes : {Sizes{0, 3, 2, 1, 1, 1, 1}, Sizes{2, 0, 2, 1, 1, 1, 1},
                             Sizes{2, 3, 0, 1, 1, 1, 1}, Sizes{1, 3, 2, 0, 1, 1, 1}}) {
    Call call = plain_call(sizes);
    call.bias = OptionWriter::pair_array(call, DType::kFloat64, 8);
    const Backward g = every_gradient(call, 1);
    backward(call.problem(), g.gradients());
    for (const Array* array : {&g.dq, &g.dk, &g.dv, &g.d_bias}) expect_all_zero(*array);
  }
}

// Packed rows and keys that belong to no sequence (flash-attention PR 2421: no queries at all).
TEST(ReferenceBackward, ASequenceWithoutQueriesGivesItsKeysNothing) {
  Call call = plain_call({2, 4, 6, 1, 1, 2, 2});
  call.cu_seqlens_q = integers({0, 0, 2});
  call.cu_seqlens_k = integers({0, 3, 5});
  lay_out(call, {1, 3, 1, 2}, {1, 6, 1, 2}, 1);
  const Backward g = every_gradient(call, 1);
  backward(call.problem(), g.gradients());
  for (const std::int64_t row : {0, 1, 2, 5}) EXPECT_EQ(g.dk.at(0, row), 0);
  for (const std::int64_t row : {3, 4}) EXPECT_NE(g.dk.at(0, row), 0);
  EXPECT_EQ(g.dq.at(0, 2), 0);
}

}  // namespace
}  // namespace tessera::test
