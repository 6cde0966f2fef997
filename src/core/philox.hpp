// Philox4x32-10, a random function of a counter: equal counters give equal words, on every machine
// and in any order. Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011.
#pragma once
#include <array>
#include <cstdint>

namespace tessera::core {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxKey philox_key(std::uint64_t seed) {
  return {std::uint32_t(seed), std::uint32_t(seed >> 32)};
}

constexpr PhiloxCounter philox_round(PhiloxCounter c, PhiloxKey k) {
  const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0], b = std::uint64_t{0xCD9E8D57u} * c[2];
  return {std::uint32_t(b >> 32) ^ c[1] ^ k[0], std::uint32_t(b),
          std::uint32_t(a >> 32) ^ c[3] ^ k[1], std::uint32_t(a)};
}

// Four random words.
constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    c = philox_round(c, k);
    k[0] += 0x9E3779B9u;  // the golden ratio
    k[1] += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

}  // namespace tessera::core
