// Workspace, kept between calls: new pages cost as much as the copies into them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cpu/executor.hpp"

namespace tessera::cpu {

class Workspaces {
 public:
  static constexpr std::uint64_t kAlignment = 64;
  // A block above this goes back at the end of its call. Pages that the system has just given are
  // slow: of a backward pass on 16 threads, whose workspace was 130 MiB, they took two thirds.
  static constexpr std::uint64_t kKept = std::uint64_t{512} << 20;

  explicit Workspaces(const Allocator& allocator) : allocator_(allocator) {}
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  struct Block {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  // At least so many bytes; fails with kOutOfMemory.
  Block take(std::uint64_t bytes);
  void give_back(Block block) noexcept;

 private:
  Block allocate(std::uint64_t bytes) const;
  void release(Block block) const noexcept;

  Allocator allocator_;
  std::mutex mutex_;
  std::vector<Block> free_;
};

}  // namespace tessera::cpu
