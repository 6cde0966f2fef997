// The Hopper kernel in software, against the definition.
#include <gtest/gtest.h>

#include <algorithm>

#include "api/convert.hpp"
#include "emulator/backend_sm90.hpp"
#include "support/compare.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

Backend sm90() { return backend("emulator/sm90"); }

constexpr DType kTypes[] = {DType::kFloat16, DType::kBfloat16};

std::string refusal(const Inputs& in) {
  const Outputs outputs(in.of);
  return emulator::refusal_of_sm90(api::convert(describe(in, outputs), api::Purpose::kRun).problem);
}

void expect_right(const Inputs& in) {
  ASSERT_EQ(refusal(in), "") << sm90().command(in.of);
  EXPECT_TRUE(agree(run(sm90(), in), define(in), in, sm90())) << sm90().command(in.of);
}

// Rows of 16 bytes and enough of them; what the kernel refuses is left out.
Case any_case(Dice& dice, const Limits& limits) {
  Case c = random_call(dice, limits);
  c.dropout = 0;
  c.state = c.wide_out = c.alibi = false;
  c.softcap = 0;
  c.mask = {};
  c.bias = {};
  c.page_size = 0;
  c.q_layout = c.k_layout = c.v_layout = Layout::kAligned;
  if (!dice.one_in(3)) c.out_layout = Layout::kAligned;  // else it may be stored element by element
  c.dtype = dice.pick(kTypes);
  constexpr std::int64_t kDims[] = {1, 8, 37, 40, 64, 72, 96, 100, 128};
  c.dim = dice.pick(kDims);
  c.value_dim = dice.pick(kDims);
  const std::int64_t rows = std::max<std::int64_t>(1, c.batch * c.queries * c.heads);
  c.heads *= (64 + rows - 1) / rows;
  return c;
}

TEST(EmulatedHopper, any_case_agrees_with_the_definition) {
  Dice dice(test_seed());
  int ran = 0;
  for (int n = 0; n < 60 && !testing::Test::HasFailure(); ++n) {
    const Inputs in(any_case(dice, {.work = 60'000}));
    if (!refusal(in).empty()) continue;
    expect_right(in);
    ++ran;
  }
  EXPECT_GE(ran, 30);
}

// Several tiles of queries and of keys, lengths that fill none of them.
TEST(EmulatedHopper, long_rows_of_each_head_dimension) {
  for (const DType dtype : kTypes)
    for (const std::int64_t dim : {64, 128}) {
      Case c{.queries = 300, .keys = 411, .heads = 2, .kv_heads = 1, .dim = dim, .value_dim = dim};
      c.dtype = dtype;
      expect_right(Inputs(aligned(c)));
      c.right = 0;
      c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
      expect_right(Inputs(aligned(c)));
      c.left = 100;
      c.right = 17;
      c.align = TESSERA_ALIGN_TOP_LEFT;
      expect_right(Inputs(aligned(c)));
    }
}

// Tiles of them cannot be written by the copy engine.
TEST(EmulatedHopper, rows_of_the_output_that_are_no_multiple_of_16_bytes) {
  for (const std::int64_t value_dim : {1, 12, 63, 65, 127}) {
    Case c{.queries = 200, .keys = 150, .dim = 64, .value_dim = value_dim};
    c.dtype = DType::kBfloat16;
    expect_right(Inputs(aligned(c)));
  }
}

// The largest score grows by more than the slack of the running maximum.
TEST(EmulatedHopper, scores_that_outgrow_the_running_maximum) {
  for (const DType dtype : kTypes) {
    Case c{.queries = 130, .keys = 600, .dim = 64, .value_dim = 64};
    c.dtype = dtype;
    c.scale = 1;
    expect_right(Inputs(aligned(c)));
    c.left = 40;
    c.right = 3;
    c.align = TESSERA_ALIGN_TOP_LEFT;
    expect_right(Inputs(aligned(c)));
  }
}

TEST(EmulatedHopper, the_schedule_does_not_change_a_bit) {
  Case c{.batch = 2, .queries = 140, .keys = 270, .heads = 2, .dim = 72, .value_dim = 40};
  c.kv_heads = 1;
  c.dtype = DType::kBfloat16;
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const Inputs in(aligned(c));
  const Outputs first = run(sm90(), in);
  for (int schedule = 0; schedule < 4; ++schedule) EXPECT_TRUE(same_bits(run(sm90(), in), first));
}

TEST(EmulatedHopper, memory_that_no_row_sees_does_not_exist) {
  Dice dice(test_seed() + 2);
  int ran = 0;
  for (int n = 0; n < 15 && !testing::Test::HasFailure(); ++n) {
    const Inputs plain(any_case(dice, {.work = 60'000}));
    if (!refusal(plain).empty()) continue;
    EXPECT_TRUE(same_bits(run(sm90(), plain.with_unseen_memory_poisoned()), run(sm90(), plain)))
        << sm90().command(plain.of);
    ++ran;
  }
  EXPECT_GE(ran, 8);
}

TEST(EmulatedHopper, refuses_what_it_does_not_do_with_a_sentence) {
  Case c{.queries = 70, .keys = 3, .dim = 8, .value_dim = 8};
  c.dtype = DType::kFloat16;
  const auto expect_refusal = [&](auto change, const char* sentence) {
    Case changed = aligned(c);
    change(changed);
    EXPECT_EQ(refusal(Inputs(changed)), sentence);
  };
  expect_refusal([](Case&) {}, "");
  expect_refusal([](Case& x) { x.dtype = DType::kFloat32; },
                 "the kernel of sm_90 takes float16 and bfloat16, not float32; convert q, k and v");
  expect_refusal([](Case& x) { x.value_dim = 136; },
                 "the kernel of sm_90 has head dimensions up to 128, not 136; the kernels of sm_80 "
                 "have larger ones");
  expect_refusal([](Case& x) { x.value_dim = 12, x.v_layout = Layout::kDense; },
                 "the kernel of sm_90 takes q, k and v whose rows are contiguous and lie a "
                 "multiple of 16 bytes apart, forwards; copy them, or use the kernels of sm_80");
  expect_refusal([](Case& x) { x.wide_out = true; },
                 "the kernel of sm_90 gives out in the type of q, not in float32; the kernels of "
                 "sm_80 give either");
  expect_refusal([](Case& x) { x.queries = 63; },
                 "the kernel of sm_90 rounds weights to 16 bits and takes 64 rows of queries or "
                 "more, not 63; the kernels of sm_80 take any");
  expect_refusal([](Case& x) { x.softcap = 3; },
                 "the kernel of sm_90 has neither ALiBi nor soft cap; the kernels of sm_80 do");
  expect_refusal([](Case& x) { x.mask = MaskKind::kSparse; },
                 "the kernel of sm_90 has no mask and no bias; the kernels of sm_80 do");
  expect_refusal([](Case& x) { x.dropout = 0.5; },
                 "the kernel of sm_90 has no dropout; the kernels of sm_80 do");
}

}  // namespace
}  // namespace tessera::test
