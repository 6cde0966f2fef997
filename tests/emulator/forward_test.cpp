// The forward kernel of sm_80 in software, against the definition: every option with every other.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "support/compare.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

Backend sm80() { return backend("emulator/sm80"); }

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

void expect_right(const Case& c) {
  const Inputs in(c);
  EXPECT_TRUE(agree(run(sm80(), in), define(in), in, sm80()));
}

TEST(EmulatedForward, any_case_agrees_with_the_definition) {
  Dice dice(test_seed());
  for (int n = 0; n < 150 && !testing::Test::HasFailure(); ++n) {
    const Case c = random_call(dice, {.work = 60'000});
    if (sm80().does(c)) expect_right(c);
  }
}

TEST(EmulatedForwardSlow, any_case_agrees_with_the_definition) {
  Dice dice(test_seed() + 1);
  for (int n = 0; n < 2000 && !testing::Test::HasFailure(); ++n) {
    const Case c = random_call(dice, {.work = 400'000});
    if (sm80().does(c)) expect_right(c);
  }
}

// Several steps of keys, several tiles of queries, every width of tile.
TEST(EmulatedForward, long_rows_of_every_head_dimension) {
  for (const DType dtype : kTypes)
    for (const std::int64_t dim : {64, 128, 256, 512}) {
      Case c{.queries = 70, .keys = 200, .heads = 2, .kv_heads = 1, .dim = dim, .value_dim = dim};
      c.dtype = dtype;
      expect_right(c);
      c.right = 0;
      c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
      expect_right(c);
    }
}

// The largest score grows by more than the slack of the running maximum, and tiles are empty.
TEST(EmulatedForward, scores_that_outgrow_the_running_maximum) {
  for (const DType dtype : kTypes) {
    Case c{.queries = 33, .keys = 300, .dim = 64, .value_dim = 64};
    c.dtype = dtype;
    c.scale = 1;
    expect_right(c);
    c.left = 40;
    c.right = 3;
    c.align = TESSERA_ALIGN_TOP_LEFT;
    c.mask = MaskKind::kBlocks;
    expect_right(c);
  }
}

// What is not finite takes the careful path; warps that share rows share its columns too.
TEST(EmulatedForward, infinities_in_rows_of_every_head_dimension) {
  for (const DType dtype : kTypes)
    for (const auto& [dim, wide] : {std::pair{64, true}, {256, true}, {300, false}, {512, true}}) {
      Case c{.queries = 35, .keys = 70, .heads = 2, .kv_heads = 1, .dim = 64, .value_dim = dim};
      c.dtype = dtype;
      c.right = 0;
      c.align = TESSERA_ALIGN_TOP_LEFT;
      c.wide_out = wide;
      c.state = true;
      Inputs in(c);
      in.v.set({0, 11, 0, 3}, INFINITY);
      in.v.set({0, 20, 0, dim - 1}, NAN);
      in.q.set({0, 30, 1, 5}, NAN);
      EXPECT_TRUE(is_right(run(sm80(), in), in, sm80()));
    }
}

TEST(EmulatedForward, the_schedule_does_not_change_a_bit) {
  Case c{.batch = 2, .queries = 130, .keys = 150, .heads = 2, .dim = 72, .value_dim = 40};
  c.kv_heads = 1;
  c.dtype = DType::kBfloat16;
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const Inputs in(c);
  const Outputs first = run(sm80(), in);
  for (int schedule = 0; schedule < 4; ++schedule) EXPECT_TRUE(same_bits(run(sm80(), in), first));
}

TEST(EmulatedForward, memory_that_no_row_sees_does_not_exist) {
  Dice dice(test_seed() + 2);
  for (int n = 0; n < 25 && !testing::Test::HasFailure(); ++n) {
    const Case c = random_call(dice, {.work = 60'000});
    if (!sm80().does(c)) continue;
    const Inputs plain(c);
    EXPECT_TRUE(same_bits(run(sm80(), plain.with_unseen_memory_poisoned()), run(sm80(), plain)))
        << sm80().command(c);
  }
}

TEST(EmulatedForward, refuses_what_it_does_not_do_with_a_sentence) {
  Case c{.queries = 2, .keys = 3, .dim = 8, .value_dim = 8};
  const auto refused = [](const Case& refused_case, const char* sentence) {
    const Inputs in(refused_case);
    Outputs got(refused_case);
    run(sm80(), describe(in, got), got);
    EXPECT_EQ(got.status, TESSERA_UNSUPPORTED);
    EXPECT_EQ(got.message, sentence);
  };
  c.dtype = DType::kFloat64;
  refused(c,
          "the kernels of sm_80 take float32, float16 and bfloat16, not float64; convert q, k and "
          "v, or use the reference backend");
  c.dtype = DType::kFloat16;
  c.value_dim = 513;
  refused(c,
          "the kernels of sm_80 have head dimensions up to 512, not 513; the CPU backend takes "
          "any");
}

}  // namespace
}  // namespace tessera::test
