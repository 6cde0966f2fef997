// What the small kernels of tests share.
#pragma once
#include <gtest/gtest.h>
#include <isa/memory.cuh>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "device/types.cuh"

namespace tessera::test {

// A byte of the block's shared memory.
inline device::Address shared(device::u32 byte) {
  return device::Address(device::u32(device::isa::shared_base()) + byte);
}

// What 16 bytes of a tile hold, wherever the swizzle has put them. PTX ISA, "Swizzling modes".
inline device::u32 exchanged(device::u32 byte, device::Swizzle swizzle) {
  switch (swizzle) {
    case device::Swizzle::k128B: return byte ^ (byte / 128 % 8) * 16;
    case device::Swizzle::k64B: return byte ^ (byte / 128 % 4) * 16;
    case device::Swizzle::k32B: return byte ^ (byte / 128 % 2) * 16;
    default: return byte;
  }
}

// The best of five is printed; without assertions in the build it is at most `most` milliseconds.
template <class Run> void expect_quick(const char* what, double most, Run run) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    run();
    best = std::min(best, 1e3 * double(std::clock() - start) / CLOCKS_PER_SEC);
  }
  testing::Test::RecordProperty("milliseconds", std::to_string(best));
  std::printf("%s: %.2f ms\n", what, best);
#ifdef NDEBUG
  EXPECT_LE(best, most);
#else
  static_cast<void>(most);
#endif
}

}  // namespace tessera::test
