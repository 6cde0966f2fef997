// What may be changed about a call without changing its answer.
#include <cmath>
#include <utility>

#include "support/law.hpp"

namespace tessera::test {
namespace {

class Invariance : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Invariance, testing::ValuesIn(names_with_gpu()), parameter_name);

const Limits kSmall{.work = 300'000};

Case any_case(Dice& dice) { return random_case(dice, kSmall); }

// With nothing that tells keys apart but mask and bias.
Case case_without_positions(Dice& dice) {
  Case c = random_case(dice, kSmall);
  c.left = c.right = TESSERA_UNBOUNDED;
  c.align = TESSERA_ALIGN_TOP_LEFT;
  c.offset = 0;
  c.offsets.clear();
  c.kv_lengths.clear();
  c.kv_starts.clear();
  c.alibi = c.alibi_by_batch = false;
  return c;
}

TEST_P(Invariance, adding_a_constant_to_all_scores_changes_nothing_but_lse) {
  constexpr double kShift = 3.25;
  for_cases(4, any_case, [](const Backend& on, Case c) {
    if (c.bias == BiasKind::kNone) c.bias = BiasKind::kNormal;
    c.bias_dtype = DType::kFloat32;
    const Inputs plain(c);
    Inputs shifted = plain;
    shifted.bias.fill(
        [&](const Index4& i) { return plain.bias.at(i[0], i[1], i[2], i[3]) + kShift; });
    if (c.sink) shifted.sink.fill([&](const Index4& i) { return plain.sink.at(i[0]) + kShift; });
    Outputs moved = run(on, shifted);
    if (moved.lse.present())
      moved.lse.fill([&](const Index4& i) { return moved.lse.at(i[0], i[1], i[2]) - kShift; });
    EXPECT_TRUE(is_right(moved, plain, on));
  });
}

// Where key j goes: a permutation without fixed structure.
std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> order;
  for (std::int64_t j = 0; j < n; ++j) order.push_back(j);
  Dice dice(seed);
  for (std::int64_t j = n - 1; j > 0; --j)
    std::swap(order[std::size_t(j)], order[std::size_t(dice.below(j + 1))]);
  return order;
}

// Moves index j of dimension `axis` to where `order` says.
Array permuted(const Array& a, std::size_t axis, const std::vector<std::int64_t>& order) {
  if (!a.present() || a.shape()[axis] == 1) return a;
  Array result = a;
  a.for_each([&](Index4 i) {
    const double x = a.at(i[0], i[1], i[2], i[3]);
    i[axis] = order[std::size_t(i[axis])];
    result.set(i, x);
  });
  return result;
}

TEST_P(Invariance, permuting_keys_with_their_values_changes_nothing) {
  for_cases(4, case_without_positions, [](const Backend& on, const Case& c) {
    const Inputs plain(c);
    const auto order = shuffled(c.keys, c.seed);
    Inputs moved = plain;
    moved.k = permuted(plain.k, 1, order);
    moved.v = permuted(plain.v, 1, order);
    if (c.mask_spans.of[3]) moved.mask = permuted(plain.mask, 3, order);
    if (c.bias_spans.of[3]) moved.bias = permuted(plain.bias, 3, order);
    EXPECT_TRUE(is_right(run(on, moved), plain, on));
  });
}

TEST_P(Invariance, the_output_is_linear_in_v) {
  for_cases(4, any_case, [](const Backend& on, const Case& c) {
    Inputs first(c), second(c), sum(c);
    // Whole numbers, so that the sum is exact in every dtype.
    const auto whole = [](double x) { return std::round(2 * x); };
    const auto value = [](const Inputs& in, const Index4& i) {
      return in.v.at(i[0], i[1], i[2], i[3]);
    };
    first.v.fill([&](const Index4& i) { return whole(value(sum, i)); });
    second.v.fill([&](const Index4& i) { return double((i[1] * 3 + i[3]) % 5 - 2); });
    sum.v.fill([&](const Index4& i) { return value(first, i) + value(second, i); });
    const Outputs a = define(first), b = define(second);
    Outputs expected = define(sum);
    expected.out.fill([&](const Index4& i) {
      return a.out.at(i[0], i[1], i[2], i[3]) + b.out.at(i[0], i[1], i[2], i[3]);
    });
    EXPECT_TRUE(agree(run(on, sum), expected, sum, on));
  });
}

TEST_P(Invariance, twice_the_values_give_twice_the_output_to_the_bit) {
  for_cases(4, any_case, [](const Backend& on, const Case& c) {
    const Inputs plain(c);
    Inputs twice = plain;
    twice.v.fill([&](const Index4& i) { return 2 * plain.v.at(i[0], i[1], i[2], i[3]); });
    Outputs expected = run(on, plain);
    const Array once = expected.out;
    if (c.dtype == DType::kFloat16) return;  // its smallest numbers lose bits that doubles keep
    expected.out.fill([&](const Index4& i) { return 2 * once.at(i[0], i[1], i[2], i[3]); });
    EXPECT_TRUE(same_bits(run(on, twice), expected));
  });
}

TEST_P(Invariance, grouped_heads_equal_repeated_heads) {
  for_cases(4, any_case, [](const Backend& on, const Case& c) {
    if (c.k_layout == Layout::kSharedByHeads || c.v_layout == Layout::kSharedByHeads) return;
    const Inputs grouped(c);
    Inputs repeated = grouped;
    repeated.of.kv_heads = c.heads;
    repeated.k = Array(c.dtype, {c.batch, c.keys, c.heads, c.dim}, c.k_layout);
    repeated.v = Array(c.dtype, {c.batch, c.keys, c.heads, c.value_dim}, c.v_layout);
    const auto head = [&](const Index4& i) { return i[2] / c.group(); };
    repeated.k.fill([&](const Index4& i) { return grouped.k.at(i[0], i[1], head(i), i[3]); });
    repeated.v.fill([&](const Index4& i) { return grouped.v.at(i[0], i[1], head(i), i[3]); });
    EXPECT_TRUE(same_bits(run(on, repeated), run(on, grouped)));
  });
}

TEST_P(Invariance, a_window_that_reaches_everything_equals_full_attention) {
  for_cases(4, any_case, [](const Backend& on, Case c) {
    c.left = c.right = TESSERA_UNBOUNDED;
    const Outputs full = run(on, Inputs(c));
    if (c.align == TESSERA_ALIGN_UNSET) c.align = TESSERA_ALIGN_TOP_LEFT;
    c.left = c.right = 10'000;
    EXPECT_TRUE(same_bits(run(on, Inputs(c)), full));
    c.left = c.right = TESSERA_UNBOUNDED - 1;
    EXPECT_TRUE(same_bits(run(on, Inputs(c)), full));
  });
}

TEST_P(Invariance, causal_equals_a_window_without_a_left_end) {
  for_cases(4, any_case, [](const Backend& on, Case c) {
    if (c.align == TESSERA_ALIGN_UNSET) c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    c.left = TESSERA_UNBOUNDED;
    c.right = 0;
    const Outputs causal = run(on, Inputs(c));
    c.left = 10'000;
    EXPECT_TRUE(same_bits(run(on, Inputs(c)), causal));
  });
}

// The mask [B, 1, Lq, Lk] that says what the band of the case says.
Array mask_of_band(const Case& c) {
  Array mask(DType::kBool, {c.batch, 1, c.queries, c.keys});
  mask.fill([&](const Index4& at) {
    const std::int64_t distance = at[3] - at[2] - c.diagonal(at[0]);
    const bool left = c.left == TESSERA_UNBOUNDED || distance >= -c.left;
    return left && (c.right == TESSERA_UNBOUNDED || distance <= c.right) ? 1. : 0.;
  });
  return mask;
}

TEST_P(Invariance, a_mask_equal_to_a_band_gives_its_answer) {
  for_cases(6, any_case, [](const Backend& on, Case c) {
    c.mask = MaskKind::kNone;
    const Inputs banded(c);
    Inputs masked = banded;
    masked.mask = mask_of_band(c);
    masked.of.left = masked.of.right = TESSERA_UNBOUNDED;
    EXPECT_TRUE(is_right(run(on, masked), banded, on));
  });
}

TEST_P(Invariance, a_bias_of_0_and_infinity_equals_the_mask) {
  for_cases(6, any_case, [](const Backend& on, Case c) {
    if (c.mask == MaskKind::kNone) c.mask = MaskKind::kRandom;
    c.bias = BiasKind::kNone;
    c.mask_spans.by_stride = false;
    const Inputs masked(c);
    Inputs biased = masked;
    biased.mask = {};
    biased.bias = Array(c.bias_dtype, masked.mask.shape());
    biased.bias.fill([&](const Index4& i) {
      return masked.mask.at(i[0], i[1], i[2], i[3]) != 0 ? 0. : -INFINITY;
    });
    EXPECT_TRUE(is_right(run(on, biased), masked, on));
  });
}

TEST_P(Invariance, a_padded_head_dimension_equals_the_unpadded_one) {
  for_cases(4, any_case, [](const Backend& on, Case c) {
    c.scale = 0.3f;
    const Inputs plain(c);
    Inputs padded = plain;
    padded.of.dim = c.dim + 5;
    padded.q = Array(c.dtype, {c.batch, c.queries, c.heads, c.dim + 5});
    padded.k = Array(c.dtype, {c.batch, c.keys, c.kv_heads, c.dim + 5});
    const auto or_zero = [&](const Array& a, const Index4& i) {
      return i[3] < c.dim ? a.at(i[0], i[1], i[2], i[3]) : 0;
    };
    padded.q.fill([&](const Index4& i) { return or_zero(plain.q, i); });
    padded.k.fill([&](const Index4& i) { return or_zero(plain.k, i); });
    EXPECT_TRUE(is_right(run(on, padded), plain, on));
  });
}

}  // namespace
}  // namespace tessera::test
