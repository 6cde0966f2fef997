// The algebra of states: a call may begin where another ended, and the keys may be cut anywhere.
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "support/law.hpp"

namespace tessera::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class States : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, States, testing::ValuesIn(complete_names_with_emulator()),
                         parameter_name);

const Limits kSmall{.work = 300'000};

Case any_call(Dice& dice) { return random_call(dice, kSmall); }

TEST_P(States, an_empty_state_is_the_identity_whatever_its_o_holds) {
  for_cases(8, any_call, [](const Backend& on, Case c) {
    c.state = false;
    const Inputs in(c);
    const Outputs plain = run_invariant(on, in);
    c.state = true;
    Inputs from_nothing(c);
    from_nothing.state_lse.fill(
        [](const Index4& i) { return (i[1] + i[2]) % 2 == 0 ? -INFINITY : INFINITY; });
    from_nothing.state_out.fill([](const Index4&) { return kNaN; });
    EXPECT_TRUE(same_bits(run_invariant(on, from_nothing), plain));
    EXPECT_TRUE(is_right(run(on, from_nothing), in, on));
  });
}

TEST_P(States, without_keys_a_state_stays_what_it_is) {
  for_cases(6, any_call, [](const Backend& on, Case c) {
    if (c.batch == 0) return;
    c.state = c.wide_out = c.lse = true;
    c.sink = false;
    c.dropout = 0;
    c.used_q.clear();
    c.spare_rows = 0;
    c.kv_lengths.assign(std::size_t(c.batch), 0);
    c.kv_starts.clear();
    const Inputs in(c);
    const Outputs got = run(on, in);
    got.lse.for_each([&](const Index4& i) {
      const double lse = in.state_lse.at(i[0], i[1], i[2]);
      const bool empty = std::isinf(lse);
      EXPECT_FLOAT_EQ(float(got.lse.at(i[0], i[1], i[2])), empty ? -INFINITY : float(lse));
      for (std::int64_t d = 0; d < c.value_dim; ++d)
        EXPECT_EQ(got.out.at(i[0], i[2], i[1], d),
                  empty ? 0 : in.state_out.at(i[0], i[2], i[1], d));
    });
  });
}

// ---- Partitions ----

// The keys of each sequence in three runs, cut anywhere, empty ones included, in any order.
struct Partition {
  std::vector<std::vector<std::int64_t>> cuts;  // of each sequence
  std::vector<std::int64_t> order;

  explicit Partition(const Case& c) : order(core::shuffled(3, c.seed)) {
    Dice dice(c.seed + 5);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      const std::int64_t first = c.first_key(b), end = c.end_of_keys(b);
      const std::int64_t one = dice.between(first, end), other = dice.between(first, end);
      cuts.push_back({first, std::min(one, other), std::max(one, other), end});
    }
  }
};

// The case with the keys of one part, its diagonal where it was. The sink counts once.
Case part_of(const Case& c, const Partition& partition, int n) {
  const auto run = std::size_t(partition.order[std::size_t(n)]);
  Case part = c;
  part.kv_starts.clear();
  part.kv_lengths.clear();
  part.offsets.clear();
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::vector<std::int64_t>& cuts = partition.cuts[std::size_t(b)];
    part.kv_starts.push_back(cuts[run]);
    part.kv_lengths.push_back(cuts[run + 1]);
    part.offsets.push_back(c.diagonal(b));
  }
  part.align = TESSERA_ALIGN_OFFSETS;
  part.offset = 0;
  const bool last = n == 2;
  part.sink = c.sink && last;
  part.state = n > 0 || c.state;
  part.lse = part.lse || !last;
  part.wide_out = c.wide_out || !last;
  return part;
}

TEST_P(States, any_partition_of_the_keys_gives_the_plain_result) {
  for_cases(12, any_call, [](const Backend& on, Case c) {
    if (c.batch == 0) return;
    const Inputs whole(c);
    const Partition partition(c);
    Array out = whole.state_out, lse = whole.state_lse;
    for (int n = 0; n < 3; ++n) {
      Inputs in(part_of(c, partition, n));
      in.state_out = out;
      in.state_lse = lse;
      const Outputs got = run(on, in);
      if (n == 2) {
        EXPECT_TRUE(is_right(got, whole, on));
      }
      out = got.out.converted(DType::kFloat32);
      lse = got.lse;
    }
  });
}

// A state may be far from the scores: the sums are measured from the larger of the two.
TEST_P(States, a_state_far_above_or_below_the_scores_is_merged_exactly) {
  Case c{
      .batch = 1, .queries = 20, .keys = 30, .heads = 2, .kv_heads = 1, .dim = 16, .value_dim = 8};
  c.state = true;
  for_case(c, [](const Backend& on, const Case& far) {
    for (const double lse : {-1e4, -200., 200., 1e4, -3e38, 3e38}) {
      Inputs in(far);
      in.state_lse.fill([&](const Index4&) { return lse; });
      EXPECT_TRUE(is_right(run(on, in), in, on)) << lse;
    }
  });
}

TEST_P(States, nan_in_a_state_propagates_to_its_row_alone) {
  for_cases(4, any_call, [](const Backend& on, Case c) {
    c.state = true;
    Inputs in(c);
    if (in.state_lse.count() == 0) return;
    Dice dice(c.seed);
    const Index4 shape = in.state_lse.shape();
    const Index4 at{dice.below(shape[0]), dice.below(shape[1]), dice.below(shape[2]), 0};
    if (dice.one_in(2))
      in.state_lse.set(at, kNaN);
    else
      in.state_out.set({at[0], at[2], at[1], 0}, kNaN);
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

// Out in float32 is the state; 16 bits would lose it.
TEST_P(States, out_in_float32_is_not_rounded_to_16_bits) {
  for_cases(4, any_call, [](const Backend& on, Case c) {
    if (c.dtype == DType::kFloat32) return;
    c.wide_out = true;
    const Inputs in(c);
    const Outputs wide = run(on, in);
    EXPECT_EQ(wide.out.dtype(), DType::kFloat32);
    EXPECT_TRUE(is_right(wide, in, on));
  });
}

}  // namespace
}  // namespace tessera::test
