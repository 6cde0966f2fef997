// A time without memory: operator new fails for one size, or at one allocation, in all threads.
#pragma once
#include <cstdint>

namespace tessera::test {

class NoMemory {
 public:
  // For blocks of so many bytes; others are still to be had.
  explicit NoMemory(std::int64_t bytes);
  ~NoMemory() { end(); }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;

  void end() const;

  // False where a sanitizer has its own operator new.
  static bool possible();
};

class FailingAllocation {
 public:
  // After `before` more that succeed, one fails, or all from then on.
  explicit FailingAllocation(std::int64_t before, bool for_good = false);
  ~FailingAllocation() { end(); }
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  void end() const;
  bool happened() const;
};

// Blocks of operator new that were not given back yet.
std::int64_t live_blocks();

}  // namespace tessera::test
