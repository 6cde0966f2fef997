#include "tools/tessera/read_rate.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace tessera::tool {
namespace {

TEST(HugePages, AreZeroAndOnTheirBoundary) {
  const std::size_t bytes = (std::size_t{2} << 20) + 5;
  const std::shared_ptr<void> memory = huge_pages(bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % (std::size_t{2} << 20), 0u);
  const auto* first = static_cast<const unsigned char*>(memory.get());
  for (std::size_t n = 0; n < bytes; n += 5) ASSERT_EQ(first[n], 0) << n;
}

// No machine reads less than 0.1 or more than 10000 GB/s.
TEST(ReadRate, IsThatOfAMemory) {
  for (const int threads : {1, 2, 3}) {
    const double rate = ReadRate(threads).burst();
    EXPECT_GT(rate, 0.1) << threads;
    EXPECT_LT(rate, 10000) << threads;
  }
}

}  // namespace
}  // namespace tessera::tool
