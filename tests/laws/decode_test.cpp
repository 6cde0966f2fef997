// Few queries at the sizes that the decode kernel has loops of its own for.
#include "support/law.hpp"

namespace tessera::test {
namespace {

class Decode : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Decode, testing::ValuesIn(names_with_gpu()), parameter_name);

// Any group, odd numbers of keys, whole blocks and none; windows that begin and end within one.
Case usual_case(Dice& dice) {
  Case c;
  c.kv_heads = dice.pick({1, 2});
  c.heads = c.kv_heads * (1 + dice.below(16));
  c.queries = dice.pick({1, 1, 2, 3});
  c.keys = dice.pick({3, 33, 95, 129, 257, 1025});
  c.dim = dice.pick({32, 64, 128, 128});
  c.value_dim = dice.pick({48, 128, 128});
  c.dtype = dice.pick({DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kBfloat16});
  c.seed = std::uint64_t(dice.below(1000));
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  if (dice.one_in(2)) c.right = 0, c.left = dice.pick({1, 40, 101, 700});
  c.sink = dice.one_in(4);
  return c;
}

TEST_P(Decode, any_group_and_number_of_keys_is_right) {
  for_cases(24, usual_case, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

TEST_P(Decode, memory_that_no_row_sees_does_not_exist) {
  for_cases(24, usual_case, [](const Backend& on, const Case& c) {
    const Inputs plain(c);
    EXPECT_TRUE(same_bits(run(on, plain), run(on, plain.with_unseen_memory_poisoned())));
  });
}

// The largest weight of a row is then not 1: q is not scaled before it is multiplied in pairs.
TEST_P(Decode, scores_far_from_zero_are_right) {
  const auto far_case = [](Dice& dice) {
    Case c = usual_case(dice);
    c.scale = dice.pick({0x1p10f, 0x1p17f, 0x1p20f});
    return c;
  };
  for_cases(8, far_case, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

}  // namespace
}  // namespace tessera::test
