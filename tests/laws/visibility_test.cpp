// What a row does not see does not exist for it; what it sees, it cannot overlook.
#include <cmath>
#include <limits>

#include "support/law.hpp"

namespace tessera::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Visibility : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Visibility, testing::ValuesIn(names_with_gpu()), parameter_name);

const Limits kSmall{.work = 200'000};

// Something hides some keys: a band, a mask, a bias, lengths or starts.
bool hides(const Case& c) {
  return c.bounded() || c.mask != MaskKind::kNone || c.bias == BiasKind::kHoles ||
         !c.kv_lengths.empty() || !c.kv_starts.empty();
}

Case hiding_case(Dice& dice) {
  Case c = random_case(dice, kSmall);
  while (!hides(c)) c = random_case(dice, kSmall);
  return c;
}

// The same, or memory that belongs to no sequence.
Case hiding_call(Dice& dice) {
  Case c = random_call(dice, kSmall);
  while (!hides(c) && c.dense()) c = random_call(dice, kSmall);
  return c;
}

// The row [b, i, h] that the case's seed points at.
Index4 any_row(const Case& c) {
  Dice dice(c.seed + 17);
  return {dice.below(c.batch), dice.below(c.queries), dice.below(c.heads), 0};
}

bool has_rows(const Case& c) { return c.batch > 0 && c.queries > 0 && c.heads > 0 && c.keys > 0; }

TEST_P(Visibility, a_row_depends_only_on_the_keys_it_sees) {
  for_cases(8, hiding_case, [](const Backend& on, const Case& c) {
    if (!has_rows(c)) return;
    const Inputs plain(c);
    const auto [b, i, h, unused] = any_row(c);
    Inputs changed = plain;
    for (std::int64_t j = 0; j < c.keys; ++j) {
      bool seen = false;  // by the row, from any head that shares this memory
      for (std::int64_t head = 0; head < c.heads; ++head) seen |= plain.sees(b, head, i, j);
      if (seen) continue;
      for (std::int64_t kh = 0; kh < c.kv_heads; ++kh) {
        for (std::int64_t d = 0; d < c.dim; ++d) changed.k.set({b, j, kh, d}, d % 2 ? -40 : 60);
        for (std::int64_t d = 0; d < c.value_dim; ++d) changed.v.set({b, j, kh, d}, 1000);
      }
    }
    EXPECT_TRUE(same_row(run(on, plain), run(on, changed), {b, i, h, 0}));
  });
}

TEST_P(Visibility, a_row_depends_only_on_its_own_query) {
  for_cases(4, hiding_case, [](const Backend& on, const Case& c) {
    if (!has_rows(c) || c.q_layout == Layout::kSharedByHeads) return;
    const Inputs plain(c);
    const Index4 row = any_row(c);
    Inputs changed = plain;
    changed.q.fill([&](const Index4& at) {
      const bool own = at[0] == row[0] && at[1] == row[1] && at[2] == row[2];
      return own ? plain.q.at(at[0], at[1], at[2], at[3]) : double(at[3] % 3 - 1) * 30;
    });
    EXPECT_TRUE(same_row(run(on, plain), run(on, changed), row));
  });
}

TEST_P(Visibility, memory_that_no_row_sees_does_not_exist) {
  for_cases(24, hiding_call, [](const Backend& on, const Case& c) {
    const Inputs plain(c);
    EXPECT_TRUE(same_bits(run(on, plain), run(on, plain.with_unseen_memory_poisoned())));
  });
}

// A NaN in one element of v: the rows that see its key, and no others, are NaN there.
TEST_P(Visibility, nan_in_v_reaches_exactly_the_rows_that_see_its_key) {
  for_cases(8, hiding_case, [](const Backend& on, Case c) {
    if (!has_rows(c)) return;
    c.v_layout = Layout::kDense;
    const Inputs plain(c);
    Inputs poisoned = plain;
    Dice dice(c.seed);
    const std::int64_t b = dice.below(c.batch), j = dice.below(c.keys);
    const std::int64_t kh = dice.below(c.kv_heads), d = dice.below(c.value_dim);
    poisoned.v.set({b, j, kh, d}, kNaN);
    const Outputs got = run(on, poisoned), definition = define(plain);
    Outputs expected = definition;
    for (std::int64_t h = kh * c.group(); h < (kh + 1) * c.group(); ++h)
      for (std::int64_t i = 0; i < c.queries; ++i)
        if (plain.sees(b, h, i, j)) expected.out.set({b, i, h, d}, kNaN);
    EXPECT_TRUE(agree(got, expected, plain, on));
  });
}

TEST_P(Visibility, infinities_in_v_reach_exactly_the_rows_that_see_their_key) {
  for_cases(8, hiding_case, [](const Backend& on, const Case& c) {
    if (!has_rows(c)) return;
    Inputs infinite(c);
    Dice dice(c.seed);
    for (int n = 0; n < 3; ++n)
      infinite.v.set({dice.below(c.batch), dice.below(c.keys), dice.below(c.kv_heads),
                      dice.below(c.value_dim)},
                     n == 0 ? -INFINITY : INFINITY);
    EXPECT_TRUE(is_right(run(on, infinite), infinite, on));
  });
}

TEST_P(Visibility, visible_nan_in_k_propagates) {
  for_cases(8, hiding_case, [](const Backend& on, Case c) {
    if (!has_rows(c)) return;
    c.scale = 1;
    Inputs poisoned(c);
    Dice dice(c.seed);
    poisoned.k.set(
        {dice.below(c.batch), dice.below(c.keys), dice.below(c.kv_heads), dice.below(c.dim)}, kNaN);
    EXPECT_TRUE(is_right(run(on, poisoned), poisoned, on));
  });
}

TEST_P(Visibility, nan_in_q_propagates_unless_the_row_is_empty) {
  for_cases(8, hiding_case, [](const Backend& on, const Case& c) {
    if (!has_rows(c)) return;
    Inputs poisoned(c);
    for (int n = 0; n < 2; ++n) {
      const auto [b, i, h, unused] = any_row(c);
      poisoned.q.set({b, (i + n) % c.queries, h, c.dim - 1}, kNaN);
    }
    const Outputs got = run(on, poisoned);
    EXPECT_TRUE(is_right(got, poisoned, on));
    const auto [b, i, h, unused] = any_row(c);
    EXPECT_EQ(poisoned.row_is_empty(b, h, i), !std::isnan(got.out.at(b, i, h)));
  });
}

TEST_P(Visibility, nan_in_a_visible_bias_propagates) {
  for_cases(6, hiding_case, [](const Backend& on, Case c) {
    if (!has_rows(c)) return;
    if (c.bias == BiasKind::kNone) c.bias = BiasKind::kHoles;
    c.bias_spans = {};
    Inputs poisoned(c);
    Dice dice(c.seed);
    poisoned.bias.set(
        {dice.below(c.batch), dice.below(c.heads), dice.below(c.queries), dice.below(c.keys)},
        kNaN);
    EXPECT_TRUE(is_right(run(on, poisoned), poisoned, on));
  });
}

TEST_P(Visibility, rows_that_see_no_key_give_zeros_and_minus_infinity_or_the_sink) {
  for_cases(8, hiding_case, [](const Backend& on, Case c) {
    c.mask = MaskKind::kSparse;
    c.mask_spans = {};
    c.lse = true;
    const Inputs in(c);
    const Outputs got = run(on, in);
    got.lse.for_each([&](const Index4& at) {
      const auto [b, h, i, unused] = at;
      if (!in.row_is_empty(b, h, i)) return;
      const double lse = c.sink ? in.sink.at(h) : -INFINITY;
      // The sink passes through the logarithm to base 2 and back.
      EXPECT_FLOAT_EQ(float(got.lse.at(b, h, i)), float(lse)) << b << ", " << i << ", " << h;
      for (std::int64_t d = 0; d < c.value_dim; ++d) EXPECT_EQ(got.out.at(b, i, h, d), 0);
    });
  });
}

}  // namespace
}  // namespace tessera::test
