// A host application that lends memory and keeps books.
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <new>

#include "cpu/executor.hpp"

namespace tessera::test {

class Host {
 public:
  cpu::Allocator allocator() { return {allocate, release, this}; }

  // Larger blocks are refused from now on.
  void refuse_above(std::uint64_t bytes) { most_ = bytes; }

  int allocations() const { return allocations_; }
  int releases() const { return releases_; }
  std::size_t live() const { return blocks_.size(); }
  std::uint64_t live_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [memory, bytes] : blocks_) sum += bytes;
    return sum;
  }
  // Every request was a whole multiple of its alignment, every release a live block and its size.
  bool polite() const { return polite_; }

 private:
  static void* allocate(void* user, std::uint64_t bytes, std::uint64_t alignment) {
    auto& host = *static_cast<Host*>(user);
    const std::lock_guard lock(host.mutex_);
    if (alignment != 64 || bytes == 0 || bytes % alignment != 0) host.polite_ = false;
    if (bytes > host.most_) return nullptr;
    void* const memory = ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
    if (memory == nullptr) return nullptr;
    ++host.allocations_;
    host.blocks_[memory] = bytes;
    return memory;
  }

  static void release(void* user, void* memory, std::uint64_t bytes) {
    auto& host = *static_cast<Host*>(user);
    const std::lock_guard lock(host.mutex_);
    const auto found = host.blocks_.find(memory);
    if (found == host.blocks_.end() || found->second != bytes) host.polite_ = false;
    if (found == host.blocks_.end()) return;
    host.blocks_.erase(found);
    ++host.releases_;
    ::operator delete(memory, std::align_val_t(64));
  }

  std::mutex mutex_;
  std::uint64_t most_ = std::numeric_limits<std::uint64_t>::max();
  int allocations_ = 0, releases_ = 0;
  bool polite_ = true;
  std::map<void*, std::uint64_t> blocks_;
};

}  // namespace tessera::test
