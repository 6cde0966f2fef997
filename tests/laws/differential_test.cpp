// Any case, on everything that computes, against the definition.
#include "support/law.hpp"

namespace tessera::test {
namespace {

// Small in most cases; some large enough for five threads.
Case next_case(Dice& dice, int n) {
  return n % 16 == 0 ? random_call(dice, {.work = 12'000'000, .least_work = 8'000'000})
                     : random_call(dice, {.work = 700'000});
}

// The cases of chunk `chunk`; a failure names its case and its seed.
void check_chunk(int chunk, int cases) {
  Dice dice(test_seed() + std::uint64_t(chunk) * 1'000'003u);
  for (int n = 0; n < cases; ++n) {
    const Case c = next_case(dice, n);
    const Inputs in(c);
    const Outputs definition = define(in);
    for (const std::string& name : backend_names()) {
      const Backend one = backend(name, 1);
      if (!one.does(c)) continue;
      SCOPED_TRACE(one.command(c) + "\n  " + this_test());
      const Outputs got = run(one, in);
      ASSERT_TRUE(agree(got, definition, in, one));
      if (one.is_reference()) continue;
      for (const int threads : {2, 5})
        ASSERT_TRUE(same_bits(run(backend(name, threads), in), got)) << threads << " threads";
    }
  }
}

class Differential : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Chunk, Differential, testing::Range(0, 8));

TEST_P(Differential, any_case_agrees_with_the_definition) { check_chunk(GetParam(), 160); }

class DifferentialSlow : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Chunk, DifferentialSlow, testing::Range(100, 120));

TEST_P(DifferentialSlow, any_case_agrees_with_the_definition) { check_chunk(GetParam(), 2000); }

}  // namespace
}  // namespace tessera::test
