// Extra memory of a call, counted twice: by the allocator that a context is given, and by the peak
// resident size of a child process that makes the same call without it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "tools/tessera/call.hpp"

namespace tessera::tool {

// The allocator of one context; outlives it. Blocks that come back are kept for the next request of
// the same size, so that the cost of new pages is not taken for time of a schedule.
class MemoryMeter {
 public:
  MemoryMeter() = default;
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  Context make_context(int threads);

  // The most bytes that were held at one time.
  std::uint64_t most() const { return most_; }

 private:
  struct Size {
    std::uint64_t bytes = 0, alignment = 0;
    friend bool operator==(const Size&, const Size&) = default;
  };
  static void* allocate(void* user, std::uint64_t bytes, std::uint64_t alignment);
  static void release(void* user, void* memory, std::uint64_t bytes);

  void keep(void* memory, Size size);

  std::uint64_t live_ = 0, most_ = 0;
  std::map<void*, Size> blocks_;  // that the context holds
  void* kept_ = nullptr;
  Size kept_size_;
};

// Runs `call` in a child of this process: by how much its peak resident size grew, in bytes.
// Nothing where the child could not be made or did not finish. To be called while no context
// exists: the threads of a parent are not in the child. What as many threads as `threads` take
// merely by being there, a sanitizer's records of them too, is not growth.
std::optional<std::uint64_t> resident_growth(const std::function<void()>& call, int threads = 1);

// What the growth may have beyond the bytes of the allocator: stacks and bookkeeping of the
// threads, code that was not read from disk before, and the rounding of the kernel's counters.
#if defined(__has_feature)
inline constexpr bool kShadowed = __has_feature(address_sanitizer);
#else
inline constexpr bool kShadowed = false;
#endif
// AddressSanitizer reads a byte of its own for every eight that the call reads: 8 MiB for the 64 of
// the largest cache in our tests, seen there and in no other build.
inline constexpr std::uint64_t kShadow = std::uint64_t{kShadowed ? 8U : 0U} << 20;
inline constexpr std::uint64_t kResidentSlack = (std::uint64_t{4} << 20) + kShadow;

}  // namespace tessera::tool
