// Test data that depends on (seed, tensor, element) alone, so that a command line repeats a case.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "core/philox.hpp"
#include "core/tensor.hpp"

namespace tessera::core {

// 128 random bits of one element of one tensor.
struct RandomBits {
  std::uint64_t low, high;
};

constexpr RandomBits random_bits(std::uint64_t seed, std::uint32_t tensor, std::uint64_t element) {
  const auto w =
      philox({std::uint32_t(element), std::uint32_t(element >> 32), tensor, 0}, philox_key(seed));
  return {w[0] | std::uint64_t{w[1]} << 32, w[2] | std::uint64_t{w[3]} << 32};
}

// The upper 53 bits, in [0, 1).
constexpr double unit(std::uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

// A sample of N(0, 1), by Box and Muller (1958).
inline double normal(std::uint64_t seed, std::uint32_t tensor, std::uint64_t element) {
  const RandomBits bits = random_bits(seed, tensor, element);
  const double radius = std::sqrt(-2 * std::log1p(-unit(bits.low)));
  return radius * std::cos(2 * std::numbers::pi * unit(bits.high));
}

// Fills a tensor with scale * N(0, 1), rounded to its type. Elements are numbered row by row
// whatever the strides, so the same numbers go into every layout and every type.
inline void fill_normal(const Tensor& t, std::uint64_t seed, std::uint32_t tensor,
                        double scale = 1) {
  std::uint64_t element = 0;
  for (std::int64_t a = 0; a < t.shape[0]; ++a)
    for (std::int64_t b = 0; b < t.shape[1]; ++b)
      for (std::int64_t c = 0; c < t.shape[2]; ++c)
        for (std::int64_t d = 0; d < t.shape[3]; ++d)
          t.store({a, b, c, d}, scale * normal(seed, tensor, element++));
}

// Whether values of shape [B, Lk, Hk, Dv] make fewer than 16 outputs that are independent of each
// other: rows that see the same keys are not. The norm of so few is no average. It may be as near
// to 0 as chance has it, while the error of its sums is that of their terms, so that no relative
// error can be promised. Such values are drawn positive: their sums are as large as their terms.
constexpr bool makes_few_outputs(const Index4& values) {
  return values[0] * values[2] * values[3] < 16;
}

// A sequence of draws, for shapes and options.
class Draws {
 public:
  explicit Draws(std::uint64_t seed, std::uint32_t stream = 0xFFFFFFFFu)
      : seed_(seed), stream_(stream) {}

  // A whole number in [low, high], for low <= high; the excess of the small ones is below 2^-40 for
  // ranges below 2^24.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const std::uint64_t range = std::uint64_t(high) - std::uint64_t(low) + 1;
    const std::uint64_t bits = next().low;
    return std::int64_t(std::uint64_t(low) + (range == 0 ? bits : bits % range));
  }

  // True with probability p.
  bool chance(double p) { return unit(next().high) < p; }

  double normal() { return core::normal(seed_, stream_, element_++); }

 private:
  RandomBits next() { return random_bits(seed_, stream_, element_++); }

  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint64_t element_ = 0;
};

// 0 to n - 1 in a random order (Fisher and Yates).
inline std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed,
                                          std::uint32_t stream = 0xFFFFFFFFu) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  Draws draws(seed, stream);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto other = std::size_t(draws.between(0, i));
    order[std::size_t(i)] = order[other];
    order[other] = i;
  }
  return order;
}

}  // namespace tessera::core
