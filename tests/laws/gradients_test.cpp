// The backward pass, on everything that computes it.
#include "support/gradients.hpp"
#include "support/law.hpp"

namespace tessera::test {
namespace {

// ---- Any case against the definition ----

Case next_case(Dice& dice, int n) {
  return n % 16 == 0 ? random_backward_case(dice, {.work = 6'000'000, .least_work = 4'000'000})
                     : random_backward_case(dice, {.work = 400'000});
}

void check_chunk(int chunk, int cases) {
  Dice dice(test_seed() + std::uint64_t(chunk) * 1'000'033u);
  for (int n = 0; n < cases; ++n) {
    const BackwardInputs in(next_case(dice, n));
    const GradientArrays definition = define_gradients(in);
    for (const std::string& name : backward_backend_names()) {
      const Backend one = backend(name, 1);
      if (!one.does(in.of())) continue;
      SCOPED_TRACE(one.command(in.of()) + "\n  " + this_test());
      const GradientArrays got = differentiate(one, in);
      ASSERT_TRUE(agree(got, definition, in, one));
      if (one.is_reference()) continue;
      for (const int threads : {2, 5})
        ASSERT_TRUE(same_bits(differentiate(backend(name, threads), in), got))
            << threads << " threads";
    }
  }
}

class BackwardDifferential : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Chunk, BackwardDifferential, testing::Range(0, 8));

TEST_P(BackwardDifferential, any_case_agrees_with_the_definition) { check_chunk(GetParam(), 60); }

class BackwardDifferentialSlow : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Chunk, BackwardDifferentialSlow, testing::Range(100, 120));

TEST_P(BackwardDifferentialSlow, any_case_agrees_with_the_definition) {
  check_chunk(GetParam(), 1000);
}

}  // namespace
}  // namespace tessera::test
