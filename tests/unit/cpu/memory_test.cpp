#include "cpu/memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "unit/cpu/host.hpp"

namespace tessera::cpu {
namespace {

using test::Host;

constexpr std::uint64_t kKept = Workspaces::kKept;

bool aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % Workspaces::kAlignment == 0;
}

TEST(Workspaces, ABlockIsAlignedAndLargeEnough) {
  Workspaces own{Allocator{}};
  for (const std::uint64_t bytes : {1u, 63u, 64u, 65u, 4096u, 1'000'001u}) {
    const Workspaces::Block block = own.take(bytes);
    EXPECT_TRUE(aligned(block.memory));
    EXPECT_GE(block.bytes, bytes);
    std::memset(block.memory, 0x5a, block.bytes);
    own.give_back(block);
  }
}

TEST(Workspaces, NothingIsTakenForNothing) {
  Host host;
  {
    Workspaces lent(host.allocator());
    const Workspaces::Block block = lent.take(0);
    EXPECT_EQ(block.memory, nullptr);
    EXPECT_EQ(block.bytes, 0u);
    lent.give_back(block);
  }
  EXPECT_EQ(host.allocations(), 0);
}

TEST(Workspaces, ABlockIsKeptForTheNextCall) {
  Host host;
  Workspaces lent(host.allocator());
  const Workspaces::Block first = lent.take(10'000);
  lent.give_back(first);
  for (const std::uint64_t bytes : {10'000u, 1u, 9'999u, 10'000u}) {
    const Workspaces::Block again = lent.take(bytes);
    EXPECT_EQ(again.memory, first.memory);
    EXPECT_EQ(again.bytes, first.bytes);
    lent.give_back(again);
  }
  EXPECT_EQ(host.allocations(), 1);
  EXPECT_EQ(host.releases(), 0);
}

TEST(Workspaces, AKeptBlockThatIsTooSmallGoesBackFirst) {
  Host host;
  Workspaces lent(host.allocator());
  lent.give_back(lent.take(1000));
  const Workspaces::Block larger = lent.take(2000);
  EXPECT_GE(larger.bytes, 2000u);
  EXPECT_EQ(host.allocations(), 2);
  EXPECT_EQ(host.releases(), 1);
  EXPECT_EQ(host.live(), 1u);
  lent.give_back(larger);
}

TEST(Workspaces, ALargeBlockGoesBackAtOnce) {
  Host host;
  Workspaces lent(host.allocator());
  const Workspaces::Block kept = lent.take(kKept), large = lent.take(kKept + 1);
  lent.give_back(large);
  EXPECT_EQ(host.releases(), 1);
  lent.give_back(kept);
  EXPECT_EQ(host.releases(), 1);
  EXPECT_EQ(host.live(), 1u);
}

TEST(Workspaces, TwoCallersHaveTwoBlocks) {
  Host host;
  {
    Workspaces lent(host.allocator());
    const Workspaces::Block a = lent.take(100), b = lent.take(100);
    EXPECT_NE(a.memory, b.memory);
    lent.give_back(a);
    lent.give_back(b);
    const Workspaces::Block c = lent.take(100), e = lent.take(100);
    EXPECT_EQ((std::set{a.memory, b.memory}), (std::set{c.memory, e.memory}));
    lent.give_back(c);
    lent.give_back(e);
    EXPECT_EQ(host.allocations(), 2);
  }
  EXPECT_EQ(host.live(), 0u);
}

TEST(Workspaces, EveryByteGoesBackAsItCame) {
  Host host;
  {
    Workspaces lent(host.allocator());
    for (const std::uint64_t bytes : {std::uint64_t{5}, std::uint64_t{700}, kKept + 5,
                                      std::uint64_t{90'000}, std::uint64_t{80'000}})
      lent.give_back(lent.take(bytes));
  }
  EXPECT_EQ(host.live(), 0u);
  EXPECT_EQ(host.allocations(), host.releases());
  EXPECT_TRUE(host.polite()) << "each release names a live block with its size, each allocation "
                                "has the alignment and whole multiples of it";
}

void expect_out_of_memory(Workspaces& from, std::uint64_t bytes, const std::string& count) {
  try {
    from.take(bytes);
    ADD_FAILURE() << "a block of " << bytes << " bytes";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.status(), core::Status::kOutOfMemory);
    EXPECT_EQ(std::string(e.what()), "the call needs a workspace of " + count +
                                         " bytes, which could not be allocated; free memory, or "
                                         "use fewer threads");
  }
}

TEST(Workspaces, NoMemoryIsASentence) {
  Host host;
  {
    Workspaces lent(host.allocator());
    host.refuse_above(1000);
    expect_out_of_memory(lent, 1001, "1001");
    lent.give_back(lent.take(500));
    expect_out_of_memory(lent, 4000, "4000");  // after the kept one went back
    EXPECT_EQ(host.live(), 0u);
    const Workspaces::Block block = lent.take(500);
    EXPECT_NE(block.memory, nullptr);
    lent.give_back(block);
  }
  EXPECT_EQ(host.live(), 0u);
}

// A size that no allocator has, also where its rounding up would wrap around to 0.
TEST(Workspaces, MoreThanThereIsIsASentence) {
  Host host;
  host.refuse_above(std::uint64_t{1} << 40);
  Workspaces lent(host.allocator());
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 62, ~std::uint64_t{0} - 62, ~std::uint64_t{0}})
    EXPECT_THROW(lent.take(bytes), core::Error) << bytes;
  EXPECT_EQ(host.live(), 0u);
}

TEST(Workspaces, CallersAtOnceNeverShare) {
  Host host;
  {
    Workspaces lent(host.allocator());
    std::atomic<bool> good{true};
    std::vector<std::thread> callers;
    for (int n = 0; n < 4; ++n)
      callers.emplace_back([&lent, &good, n] {
        for (int round = 0; round < 500; ++round) {
          const Workspaces::Block block = lent.take(std::uint64_t(64 + 64 * ((n + round) % 5)));
          std::memset(block.memory, n, block.bytes);
          std::this_thread::yield();
          for (std::uint64_t i = 0; i < block.bytes; ++i)
            if (block.memory[i] != std::byte(n)) good = false;
          lent.give_back(block);
        }
      });
    for (std::thread& caller : callers) caller.join();
    EXPECT_TRUE(good);
  }
  EXPECT_EQ(host.live(), 0u);
  EXPECT_TRUE(host.polite());
}

}  // namespace
}  // namespace tessera::cpu
