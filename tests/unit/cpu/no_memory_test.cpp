#include "support/no_memory.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <new>
#include <vector>

namespace tessera::test {
namespace {

class NoMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!NoMemory::possible()) GTEST_SKIP() << "operator new is not ours";
  }
};

// By name: clang may leave out the allocation of a vector that nobody looks at.
void allocate(std::size_t bytes) { ::operator delete(::operator new(bytes)); }

TEST_F(NoMemoryTest, HoldsForItsSizeAndItsTime) {
  {
    const NoMemory none(1000);
    EXPECT_THROW(allocate(1000), std::bad_alloc);
    EXPECT_NO_THROW(allocate(1001));
  }
  EXPECT_NO_THROW(allocate(1000));
}

// The number of the first of three allocations that failed.
int first_refusal(int before, bool for_good) {
  const FailingAllocation failing(before, for_good);
  int first = 0, refused = 0;
  for (int n = 1; n <= 3; ++n) {
    try {
      allocate(8);
    } catch (const std::bad_alloc&) {
      if (++refused == 1) first = n;
    }
  }
  return failing.happened() == (refused > 0) && (for_good || refused <= 1) ? first : -1;
}

TEST_F(NoMemoryTest, OneAllocationFailsOrAllAfterIt) {
  for (const bool for_good : {false, true}) {
    EXPECT_EQ(first_refusal(0, for_good), 1);
    EXPECT_EQ(first_refusal(2, for_good), 3);
    EXPECT_EQ(first_refusal(3, for_good), 0);
  }
}

TEST_F(NoMemoryTest, BlocksAreCounted) {
  struct alignas(64) Line {
    char bytes[64];
  };
  const std::int64_t before = live_blocks();
  {
    const std::vector<Line> one(3);
    EXPECT_EQ(live_blocks(), before + 1);
  }
  EXPECT_EQ(live_blocks(), before);
}

}  // namespace
}  // namespace tessera::test
