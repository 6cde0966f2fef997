// Replaces operator new and delete of a program that asks for it; weakly, since sanitizers have
// their own.
#include "support/no_memory.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;

std::atomic<std::int64_t> refused_size{-1};
std::atomic<std::int64_t> until_failure{kNever};
std::atomic<bool> for_good{false};
std::atomic<std::int64_t> live{0};

bool is_refused(std::size_t bytes) {
  if (std::int64_t(bytes) == refused_size.load(std::memory_order_relaxed)) return true;
  const std::int64_t left = until_failure.fetch_sub(1, std::memory_order_relaxed);
  return left == 0 || (left < 0 && for_good.load(std::memory_order_relaxed));
}

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void give_back(void* memory) {
  if (memory == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

[[gnu::weak]] void* operator new(std::size_t bytes) {
  if (is_refused(bytes)) throw std::bad_alloc();
  return counted(std::malloc(bytes == 0 ? 1 : bytes));
}
[[gnu::weak]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (is_refused(bytes)) throw std::bad_alloc();
  const auto unit = std::size_t(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
[[gnu::weak]] void operator delete(void* memory) noexcept { give_back(memory); }
[[gnu::weak]] void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
[[gnu::weak]] void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
[[gnu::weak]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}

namespace tessera::test {

NoMemory::NoMemory(std::int64_t bytes) { refused_size = bytes; }
void NoMemory::end() const { refused_size = -1; }

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

FailingAllocation::FailingAllocation(std::int64_t before, bool all_after) {
  for_good = all_after;
  until_failure = before;
}
void FailingAllocation::end() const {
  for_good = false;
  until_failure = kNever;
}
bool FailingAllocation::happened() const { return until_failure < 0; }

std::int64_t live_blocks() { return live; }

}  // namespace tessera::test
