// What a host application may lend: threads and memory. The same tables as in the C interface.
#pragma once
#include <cstdint>

namespace tessera::cpu {

// parallel_for calls body(argument, w) exactly once for each w in [0, workers), on any threads, and
// returns when all calls have returned.
struct Executor {
  using Body = void (*)(void* argument, std::int32_t worker);
  void (*parallel_for)(void* user, std::int32_t workers, Body body, void* argument) = nullptr;
  void* user = nullptr;
};

struct Allocator {
  void* (*allocate)(void* user, std::uint64_t bytes, std::uint64_t alignment) = nullptr;
  void (*release)(void* user, void* memory, std::uint64_t bytes) = nullptr;
  void* user = nullptr;
};

}  // namespace tessera::cpu
