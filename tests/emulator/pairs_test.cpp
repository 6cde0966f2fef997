// The kernels of calls whose rows 16-byte copies can read, those of masks and biases among them,
// against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/compare.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

Backend sm80() { return backend("emulator/sm80"); }

// Several tiles of queries and steps of keys, of which the last ones are not whole.
Case call(std::int64_t dim) {
  Case c{.batch = 2, .queries = 150, .keys = 208, .heads = 2, .kv_heads = 1, .dim = dim};
  c.value_dim = dim;
  c.dtype = DType::kBfloat16;
  return aligned(c);
}

std::string plan(const Inputs& in) {
  Outputs out(in.of);
  std::string text(4096, '\0');
  tessera_attention_desc desc = describe(in, out);
  desc.backend = number_of(sm80());
  tessera_plan_describe(sm80().context, &desc, text.data(), text.size(), nullptr, nullptr);
  return text.c_str();
}

// `kernel` is the end of its name.
void expect_right(const Case& c, const std::string& kernel = "_pairs\"") {
  const Inputs in(c);
  EXPECT_NE(plan(in).find(kernel), std::string::npos) << plan(in);
  EXPECT_TRUE(agree(run(sm80(), in), define(in), in, sm80()));
}

// Windows, lengths, packed sequences and the rest, as they come.
TEST(EmulatedPairs, any_case_of_aligned_rows_agrees_with_the_definition) {
  Dice dice(test_seed() + 7);
  for (int n = 0; n < 200 && !testing::Test::HasFailure(); ++n) {
    Case c = aligned(random_call(dice, {.work = 120'000}));
    if (c.dtype == DType::kFloat64 || c.dtype == DType::kFloat32) c.dtype = DType::kBfloat16;
    c.wide_out = false;
    c.dropout = 0;
    if (!sm80().does(c)) continue;
    const Inputs in(c);
    EXPECT_TRUE(agree(run(sm80(), in), define(in), in, sm80()));
    EXPECT_TRUE(same_bits(run(sm80(), in.with_unseen_memory_poisoned()), run(sm80(), in)))
        << sm80().command(c);
  }
}

TEST(EmulatedPairs, masks_of_every_kind) {
  for (const std::int64_t dim : {64, 128})
    for (const MaskKind kind :
         {MaskKind::kRandom, MaskKind::kCausal, MaskKind::kBlocks, MaskKind::kSparse}) {
      Case c = call(dim);
      c.mask = kind;
      expect_right(c);
      c.mask_spans = {{true, false, true, true}, true};
      c.right = 3;
      c.left = 70;
      c.align = TESSERA_ALIGN_TOP_LEFT;
      expect_right(c);
    }
}

TEST(EmulatedPairs, biases_of_the_type_of_q) {
  for (const std::int64_t dim : {40, 128})
    for (const BiasKind kind : {BiasKind::kNormal, BiasKind::kHoles}) {
      Case c = call(dim);
      c.bias = kind;
      c.bias_dtype = c.dtype;
      expect_right(c);
      c.right = 0;
      c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
      c.kv_lengths = {101, 208};
      expect_right(c);
    }
}

// What is hidden is never more than hidden, in whatever tile it lies.
TEST(EmulatedPairs, a_mask_of_few_keys_leaves_tiles_out) {
  Case c = call(64);
  c.keys = 2400;  // more than one window of tiles
  c.queries = 40;
  c.mask = MaskKind::kBlocks;
  c.mask_spans = {{false, false, true, true}, false};
  Inputs in(c);
  for (std::int64_t i = 0; i < c.queries; ++i)
    for (std::int64_t j = 0; j < c.keys; ++j)
      in.mask.set({0, 0, i, j}, j == 130 || (j > 2300 && i % 2 == 0) ? 1 : 0);
  EXPECT_TRUE(agree(run(sm80(), in), define(in), in, sm80()));
  for (std::int64_t j = 140; j < 2240; ++j) in.k.set({1, j, 0, 7}, NAN);
  EXPECT_TRUE(agree(run(sm80(), in), define(in), in, sm80())) << "keys that no row sees";
}

// A bias of -inf hides a score that is not finite.
TEST(EmulatedPairs, memory_that_no_row_sees_does_not_exist) {
  for (const bool masked : {false, true}) {
    Case c = call(64);
    if (masked) c.mask = MaskKind::kPadding;
    if (!masked) c.bias = BiasKind::kHoles;
    c.bias_dtype = c.dtype;
    const Inputs in(c);
    EXPECT_TRUE(same_bits(run(sm80(), in.with_unseen_memory_poisoned()), run(sm80(), in)));
  }
}

TEST(EmulatedPairs, what_copies_cannot_read_takes_another_kernel) {
  Case c = call(64);
  c.keys = 215;  // rows of a mask, 216 bytes apart
  c.mask = MaskKind::kRandom;
  expect_right(c, "_rounded\"");
  c = call(64);
  c.bias = BiasKind::kNormal;
  c.bias_dtype = DType::kFloat32;
  expect_right(c, "_rounded\"");
}

}  // namespace
}  // namespace tessera::test
