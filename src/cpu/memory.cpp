#include "cpu/memory.hpp"

#include <new>
#include <string>

#include "core/error.hpp"

namespace tessera::cpu {

Workspaces::~Workspaces() {
  for (const Block& block : free_) release(block);
}

Workspaces::Block Workspaces::take(std::uint64_t bytes) {
  if (bytes == 0) return {};
  Block found;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      found = free_.back();
      free_.pop_back();
    }
  }
  if (found.bytes >= bytes) return found;
  if (found.bytes != 0) release(found);
  return allocate(bytes);
}

void Workspaces::give_back(Block block) noexcept {
  if (block.bytes == 0) return;
  if (block.bytes <= kKept) {
    try {
      const std::lock_guard lock(mutex_);
      free_.push_back(block);
      return;
    } catch (const std::bad_alloc&) {  // then it is not kept
    }
  }
  release(block);
}

Workspaces::Block Workspaces::allocate(std::uint64_t bytes) const {
  const std::uint64_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = nullptr;
  const bool fits = whole >= bytes;  // else the sum wrapped around
  if (fits && allocator_.allocate != nullptr)
    memory = allocator_.allocate(allocator_.user, whole, kAlignment);
  else if (fits)
    memory = ::operator new(whole, std::align_val_t(kAlignment), std::nothrow);
  if (memory == nullptr)
    core::fail(core::Status::kOutOfMemory,
               "the call needs a workspace of " + std::to_string(bytes) +
                   " bytes, which could not be allocated; free memory, or use fewer threads");
  return {static_cast<std::byte*>(memory), whole};
}

void Workspaces::release(Block block) const noexcept {
  if (allocator_.allocate != nullptr)
    allocator_.release(allocator_.user, block.memory, block.bytes);
  else
    ::operator delete(block.memory, std::align_val_t(kAlignment));
}

}  // namespace tessera::cpu
