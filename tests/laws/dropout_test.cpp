// Dropout: which pairs it keeps, exactly and by statistics, and what the others may hold.
#include <cmath>
#include <limits>
#include <vector>

#include "support/law.hpp"

namespace tessera::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class DropoutLaws : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, DropoutLaws, testing::ValuesIn(complete_names_with_emulator()),
                         parameter_name);

// Value j is the unit vector j, so that out[b, i, h, j] is the weight of key j after dropout.
Inputs with_unit_values(const Case& c) {
  Inputs in(c);
  in.v.fill([](const Index4& i) { return i[1] == i[3] ? 1. : 0.; });
  return in;
}

Case weights_case(float p, std::uint64_t seed) {
  Case c{.batch = 2,
         .queries = 67,
         .keys = 103,
         .heads = 4,
         .kv_heads = 2,
         .dim = 8,
         .value_dim = 103};
  c.dropout = p;
  c.dropout_seed = seed;
  c.dropout_offset = 3;
  return c;
}

// The pattern is that of the contract, whatever the tiles, and what is kept counts 1 / (1 - p).
TEST_P(DropoutLaws, keeps_exactly_the_pairs_of_the_contract) {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    for_case(weights_case(p, 0x123456789abcdefu), [](const Backend& on, const Case& c) {
      const Inputs in = with_unit_values(c);
      Inputs plain = in;
      plain.of.dropout = 0;
      const Outputs got = run_invariant(on, in), undropped = run_invariant(on, plain);
      EXPECT_TRUE(is_right(got, in, on));
      EXPECT_TRUE(same_bits(got.lse, undropped.lse)) << "lse knows nothing of dropout";
      got.out.for_each([&](const Index4& i) {
        const bool kept = in.keeps({i[0], i[2], i[1], i[3]});
        ASSERT_EQ(got.out.at(i[0], i[1], i[2], i[3]) != 0, kept)
            << i[0] << ' ' << i[1] << ' ' << i[2] << ' ' << i[3];
      });
    });
  }
}

TEST_P(DropoutLaws, nothing_is_dropped_at_0_and_the_seed_does_not_count) {
  Case c = weights_case(0, 1);
  for_case(c, [](const Backend& on, Case none) {
    const Outputs got = run(on, with_unit_values(none));
    none.dropout_seed = 2;
    EXPECT_TRUE(same_bits(run(on, with_unit_values(none)), got));
  });
}

// ---- Statistics of what is kept ----

// 1 for a kept pair: [b, i, h, j] as the output says.
Array kept_by(const Backend& on, const Case& c) {
  Array kept = run(on, with_unit_values(c)).out;
  kept.fill([&](const Index4& i) { return kept.at(i[0], i[1], i[2], i[3]) != 0 ? 1. : 0.; });
  return kept;
}

// How often pairs agree with those `step` further on in dimension `axis`.
struct Agreement {
  double agree = 0, all = 0;

  Agreement(const Array& kept, std::size_t axis, std::int64_t step) {
    kept.for_each([&](const Index4& i) {
      Index4 other = i;
      other[axis] += step;
      if (other[axis] >= kept.shape()[axis]) return;
      agree += kept.at(i[0], i[1], i[2], i[3]) == kept.at(other[0], other[1], other[2], other[3]);
      ++all;
    });
  }
};

// Five standard deviations of a share `rate` among n independent draws.
double five_sigma(double rate, double n) { return 5 * std::sqrt(rate * (1 - rate) / n); }

TEST_P(DropoutLaws, the_share_of_kept_pairs_is_1_minus_p) {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const Case c = weights_case(p, 77);
    double kept = 0;
    for (const double x : values(kept_by(on(), c))) kept += x;
    const auto all = double(c.batch * c.heads * c.queries * c.keys);
    EXPECT_NEAR(kept / all, 1 - double(p), five_sigma(p, all)) << on().command(c);
  }
}

TEST_P(DropoutLaws, batches_rows_heads_and_keys_are_independent) {
  for (const float p : {0.1f, 0.5f}) {
    const Case c = weights_case(p, 78);
    const Array kept = kept_by(on(), c);
    const double expected = double(p) * double(p) + (1 - double(p)) * (1 - double(p));
    for (std::size_t axis = 0; axis < 4; ++axis)
      for (const std::int64_t step : {1, 2, 3, 4, 16, 32}) {
        const Agreement found(kept, axis, step);
        if (found.all == 0) continue;
        EXPECT_NEAR(found.agree / found.all, expected, five_sigma(expected, found.all))
            << "dimension " << axis << ", step " << step << ' ' << on().command(c);
      }
  }
}

TEST_P(DropoutLaws, seeds_and_offsets_draw_anew) {
  const Case c = weights_case(0.5f, 79);
  const Array kept = kept_by(on(), c);
  Case other_seed = c, other_word = c, other_offset = c;
  ++other_seed.dropout_seed;
  other_word.dropout_seed += std::uint64_t{1} << 32;
  ++other_offset.dropout_offset;
  for (const Case& other : {other_seed, other_word, other_offset}) {
    const Array again = kept_by(on(), other);
    double agree = 0;
    kept.for_each([&](const Index4& i) {
      agree += kept.at(i[0], i[1], i[2], i[3]) == again.at(i[0], i[1], i[2], i[3]);
    });
    EXPECT_NEAR(agree / double(kept.count()), 0.5, five_sigma(0.5, double(kept.count())));
  }
}

// ---- What the others hold ----

TEST_P(DropoutLaws, nan_in_v_reaches_exactly_the_rows_that_keep_its_key) {
  Case c = weights_case(0.5f, 80);
  c.value_dim = 20;
  for_case(c, [](const Backend& on, const Case& dropped) {
    Inputs in(dropped);
    in.v.set({1, 50, 1, 7}, kNaN);
    in.v.set({0, 99, 0, 19}, INFINITY);
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

// One query: what is dropped, nobody keeps.
TEST_P(DropoutLaws, a_value_that_nobody_keeps_is_not_looked_at) {
  Case c{
      .batch = 2, .queries = 1, .keys = 200, .heads = 2, .kv_heads = 2, .dim = 16, .value_dim = 24};
  c.dropout = 0.5f;
  for_case(c, [](const Backend& on, const Case& dropped) {
    const Inputs in(dropped);
    EXPECT_TRUE(same_bits(run(on, in.with_unseen_memory_poisoned()), run(on, in)));
  });
}

}  // namespace
}  // namespace tessera::test
