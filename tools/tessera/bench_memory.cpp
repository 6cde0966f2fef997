#include "tools/tessera/bench_memory.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::tool {
namespace {

// Linux counts in KiB.
std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::uint64_t(usage.ru_maxrss) * 1024;
}

// Has so many threads at one time, once.
void meet_threads(int threads) {
  std::atomic<int> missing = threads;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&missing] {
      for (--missing; missing > 0;) std::this_thread::yield();
    });
  for (std::thread& t : all) t.join();
}

// Ends the child; destructors and buffers belong to the parent.
[[noreturn]] void run_child(const std::function<void()>& call, int threads, int result) {
  int exit_code = 1;
  try {
    meet_threads(threads);
    const std::uint64_t before = peak_resident_bytes();
    call();
    const std::uint64_t growth = peak_resident_bytes() - before;
    exit_code = write(result, &growth, sizeof growth) == ssize_t(sizeof growth) ? 0 : 1;
  } catch (...) {  // the parent makes the same call and reports what is wrong
  }
  _exit(exit_code);
}

}  // namespace

MemoryMeter::~MemoryMeter() { keep(nullptr, {}); }

void MemoryMeter::keep(void* memory, Size size) {
  if (kept_ != nullptr) ::operator delete(kept_, std::align_val_t(kept_size_.alignment));
  kept_ = memory;
  kept_size_ = size;
}

Context MemoryMeter::make_context(int threads) {
  tessera_context_config config = tessera_context_config_default();
  config.threads = threads;
  config.allocator = {allocate, release, this};
  tessera_error error = tessera_error_default();
  tessera_context* context = nullptr;
  check(tessera_context_create(&config, &context, &error), error);
  return Context(context);
}

void* MemoryMeter::allocate(void* user, std::uint64_t bytes, std::uint64_t alignment) {
  auto& meter = *static_cast<MemoryMeter*>(user);
  const Size size{bytes, alignment};
  const bool again = meter.kept_ != nullptr && meter.kept_size_ == size;
  void* memory = again ? std::exchange(meter.kept_, nullptr)
                       : ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
  if (memory == nullptr) return nullptr;
  meter.blocks_[memory] = size;
  meter.live_ += bytes;
  meter.most_ = std::max(meter.most_, meter.live_);
  return memory;
}

void MemoryMeter::release(void* user, void* memory, std::uint64_t) {
  auto& meter = *static_cast<MemoryMeter*>(user);
  const Size size = meter.blocks_.at(memory);
  meter.blocks_.erase(memory);
  meter.live_ -= size.bytes;
  meter.keep(memory, size);
}

std::optional<std::uint64_t> resident_growth(const std::function<void()>& call, int threads) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(nullptr);  // or the child might print it again
  const pid_t child = fork();
  if (child == 0) run_child(call, threads, ends[1]);
  close(ends[1]);
  std::uint64_t growth = 0;
  const bool told = child > 0 && read(ends[0], &growth, sizeof growth) == ssize_t(sizeof growth);
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return told && status == 0 ? std::optional(growth) : std::nullopt;
}

}  // namespace tessera::tool
