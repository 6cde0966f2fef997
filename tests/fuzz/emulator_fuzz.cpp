// Bytes as a call with any options, layouts and numbers, through the GPU kernels in the emulator:
// no rule is broken, and the result is what the definition gives, in outputs that held poison.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "support/compare.hpp"
#include "support/emulate.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

constexpr Limits kSmall{.work = 20'000};

// The bounds are of norms over many numbers from N(0, 1), and these have few, and some of any size.
constexpr double kSlack = 6;

Case any_case(Dice& dice) {
  Case c = random_call(dice, kSmall);
  c.dtype = dice.one_in(2) ? DType::kFloat16 : DType::kBfloat16;
  // Tensors that copies of 16 bytes and tensor maps take; the others are read element by element.
  return dice.one_in(2) ? aligned(c) : c;
}

// A few elements that are not N(0, 1).
void sprinkle(Dice& dice, Inputs& in) {
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0, -0., 60000, -60000, 1e-6};
  Array* const arrays[] = {&in.q, &in.k, &in.v};
  for (std::int64_t n = dice.below(4); n > 0; --n) {
    Array& a = *dice.pick(arrays);
    if (!a.present() || a.count() == 0) continue;
    Index4 at{};
    for (std::size_t axis = 0; axis < 4; ++axis) at[axis] = dice.below(a.shape()[axis]);
    a.set(at, dice.pick(kSpecial));
  }
  if (dice.one_in(2)) in = in.with_unseen_memory_poisoned();
}

void check(Dice& dice) {
  const Backend on = backend(dice.one_in(2) ? "emulator/sm80" : "emulator/sm90");
  Case c = any_case(dice);
  if (!on.does(c)) {
    c.dropout = 0;
    c.state = c.wide_out = false;
  }
  if (!on.does(c)) return;
  Inputs in(c);
  sprinkle(dice, in);
  const testing::AssertionResult right = agree(run(on, in), define(in), in, on, kSlack);
  if (right) return;
  std::fprintf(stderr, "%s: %s\n", on.name.c_str(), right.message());
  std::abort();
}

}  // namespace
}  // namespace tessera::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::test;
  if (!has_emulator()) return 0;
  GTEST_FLAG_SET(break_on_failure, true);  // what the support library expects, it expects here too
  Dice dice(std::span(data, size));
  check(dice);
  return 0;
}
