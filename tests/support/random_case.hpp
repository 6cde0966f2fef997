// Any case that the dense forward pass accepts: sizes with 0, 1, primes and tile edges +-1, every
// option with every other.
#pragma once
#include <cstdint>

#include "support/case.hpp"
#include "support/seed.hpp"

namespace tessera::test {

struct Limits {
  std::int64_t work = 1'500'000;  // multiply-adds of Q K^T and P V, at most
  std::int64_t least_work = 0;
  bool sizes_of_zero = true;
};

Case random_case(Dice& dice, const Limits& limits = {});

// The same with every way in which sequences lie in memory, dropout, states to start from and out
// in float32. Standard attention does not know all of them (Backend::does), nor do laws that index
// q, k or out by batch.
Case random_call(Dice& dice, const Limits& limits = {});

// The same call with rows that 16-byte copies can read and tensor maps describe, as the fast
// kernels of a GPU want them.
Case aligned(Case c);

// Enough work for five threads: the planner gives each at least 4 MFLOP.
inline constexpr Limits kForThreads{.work = 14'000'000, .least_work = 9'000'000};

// Any case of the backward pass.
Case random_backward_case(Dice& dice, const Limits& limits = {});

// Sizes and dtype alone: dense, no option.
Case random_plain_case(Dice& dice, const Limits& limits = {});

}  // namespace tessera::test
