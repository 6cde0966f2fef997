// Bytes as a call with any options, layouts and numbers: every backend must give what the
// definition gives, forward and backward, into outputs that held poison.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "support/compare.hpp"
#include "support/gradients.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

constexpr Limits kSmall{.work = 20'000};

// The bounds are of norms over many numbers from N(0, 1), and these have few, and some of any size.
constexpr double kSlack = 6;

void require(const testing::AssertionResult& holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), holds.message());
  std::abort();
}

// A few elements that are not N(0, 1).
void sprinkle(Dice& dice, std::span<Array* const> arrays) {
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0, -0., 60000, -60000, 1e-6};
  for (std::int64_t n = dice.below(4); n > 0; --n) {
    Array& a = *dice.pick(arrays);
    if (!a.present() || a.count() == 0) continue;
    Index4 at{};
    for (std::size_t axis = 0; axis < 4; ++axis) at[axis] = dice.below(a.shape()[axis]);
    a.set(at, dice.pick(kSpecial));
  }
}

void sprinkle(Dice& dice, Inputs& in) {
  Array* const arrays[] = {&in.q, &in.k, &in.v, &in.bias};
  sprinkle(dice, arrays);
  if (dice.one_in(2)) in = in.with_unseen_memory_poisoned();
}

void check_forward(Dice& dice) {
  Inputs in(random_call(dice, kSmall));
  sprinkle(dice, in);
  const Outputs definition = define(in);
  for (const std::string& name : backend_names()) {
    const Backend on = backend(name);
    if (on.does(in.of)) require(agree(run(on, in), definition, in, on, kSlack), name);
  }
}

void check_backward(Dice& dice) {
  BackwardInputs in(random_backward_case(dice, kSmall));
  sprinkle(dice, in.call);
  Array* const above[] = {&in.from_above.d_out, &in.from_above.d_lse};
  sprinkle(dice, above);
  const GradientArrays definition = define_gradients(in);
  for (const std::string& name : backward_backend_names()) {
    const Backend on = backend(name);
    if (on.does(in.of())) require(agree(differentiate(on, in), definition, in, on, kSlack), name);
  }
}

}  // namespace
}  // namespace tessera::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::test;
  GTEST_FLAG_SET(break_on_failure, true);  // what the support library expects, it expects here too
  Dice dice(std::span(data, size));
  dice.one_in(2) ? check_forward(dice) : check_backward(dice);
  return 0;
}
