// A time without memory: operator new fails for one size, in all threads.
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

}  // namespace tessera::test
