// Replaces operator new and delete of this program; weakly, since ThreadSanitizer has its own.
#include "unit/cpu/no_memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

std::atomic<std::int64_t> refused{-1};

}  // namespace

[[gnu::weak]] void* operator new(std::size_t bytes) {
  if (std::int64_t(bytes) == refused.load(std::memory_order_relaxed)) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::weak]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tessera::test {

NoMemory::NoMemory(std::int64_t bytes) { refused = bytes; }
void NoMemory::end() const { refused = -1; }

bool NoMemory::possible() {
  constexpr std::int64_t kBytes = 999;
  const NoMemory none(kBytes);
  try {
    ::operator delete(::operator new(std::size_t(kBytes)));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

namespace {

TEST(NoMemory, HoldsForItsSizeAndItsTime) {
  if (!NoMemory::possible()) GTEST_SKIP() << "operator new is not ours";
  {
    const NoMemory none(1000);
    EXPECT_THROW(std::vector<char>(1000), std::bad_alloc);
    EXPECT_NO_THROW(std::vector<char>(1001));
  }
  EXPECT_NO_THROW(std::vector<char>(1000));
}

}  // namespace
}  // namespace tessera::test
