// The words of cpu/amx.hpp on plain arrays: what the instructions do, for processors without them.
#pragma once
#include <cstdint>
#include <cstring>

#include "core/dtype.hpp"

namespace tessera::test {

struct EmulatedTiles {
  struct Session {};

  template <int kTile> static void zero() { std::memset(tile(kTile), 0, kBytes); }

  template <int kTile> static void load(const void* from, std::int64_t stride) {
    for (std::int64_t m = 0; m < 16; ++m)
      std::memcpy(tile(kTile) + 64 * m, static_cast<const std::byte*>(from) + m * stride, 64);
  }
  template <int kTile> static void store(void* to, std::int64_t stride) {
    for (std::int64_t m = 0; m < 16; ++m)
      std::memcpy(static_cast<std::byte*>(to) + m * stride, tile(kTile) + 64 * m, 64);
  }

  template <int kC, int kA, int kB> static void multiply() {
    for (std::int64_t m = 0; m < 16; ++m)
      for (std::int64_t n = 0; n < 16; ++n) {
        float sum = 0;
        std::memcpy(&sum, tile(kC) + 64 * m + 4 * n, 4);
        for (std::int64_t k = 0; k < 32; ++k)
          sum += element(kA, 32 * m + k) * element(kB, 32 * (k / 2) + 2 * n + k % 2);
        std::memcpy(tile(kC) + 64 * m + 4 * n, &sum, 4);
      }
  }

 private:
  static constexpr std::size_t kBytes = 1024;

  static std::byte* tile(int number) {
    alignas(64) static thread_local std::byte tiles[8][kBytes];
    return tiles[number];
  }
  static float element(int number, std::int64_t i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tile(number) + 2 * i, 2);
    return core::float_from_bfloat16(bits);
  }
};

}  // namespace tessera::test
