#include "tools/tessera/read_rate.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tessera::tool {
namespace {

constexpr std::size_t kRead = std::size_t{256} << 20, kHuge = std::size_t{2} << 20;
constexpr std::size_t kStep = 256;  // bytes of one round of a loop below

// Loads of whole cache lines with the widest vectors there are, since narrower ones read less, and
// a prefetch 1 KiB ahead, which the hardware's own does not reach on all processors.
#if defined(__x86_64__)
void read512(const char* from, std::size_t rounds) {
  asm volatile(
      "1: .irp i,0,1,2,3\n prefetcht1 1024+64*\\i(%0)\n vmovdqu64 64*\\i(%0), %%zmm\\i\n .endr\n"
      "add $256, %0\n dec %1\n jnz 1b\n vzeroupper"
      : "+r"(from), "+r"(rounds)
      :
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

void read256(const char* from, std::size_t rounds) {
  asm volatile(
      "1: .irp i,0,1,2,3\n prefetcht1 1024+64*\\i(%0)\n vmovdqu 64*\\i(%0), %%ymm\\i\n"
      "vmovdqu 32+64*\\i(%0), %%ymm\\i\n .endr\n"
      "add $256, %0\n dec %1\n jnz 1b\n vzeroupper"
      : "+r"(from), "+r"(rounds)
      :
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}
#endif

std::atomic<std::uint64_t> sink;

void read64(const char* from, std::size_t rounds) {
  std::uint64_t sums[4] = {}, words[4];
  for (const char* end = from + rounds * kStep; from != end; from += sizeof words) {
    std::memcpy(words, from, sizeof words);
    for (std::size_t w = 0; w < 4; ++w) sums[w] ^= words[w];
  }
  sink += sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

using Read = void (*)(const char* from, std::size_t rounds);

Read widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read512;
  if (__builtin_cpu_supports("avx2")) return read256;
#endif
  return read64;
}

}  // namespace

std::shared_ptr<void> huge_pages(std::size_t bytes) {
  bytes = (bytes + kHuge - 1) / kHuge * kHuge;
  void* memory = std::aligned_alloc(kHuge, bytes);
  if (memory == nullptr && bytes > 0) throw std::bad_alloc();
  std::shared_ptr<void> owner(memory, std::free);
#if defined(MADV_HUGEPAGE)
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  if (bytes > 0) std::memset(memory, 0, bytes);
  return owner;
}

ReadRate::ReadRate(int threads) : threads_(threads), memory_(huge_pages(kRead)) {}

double ReadRate::burst() const {
  using Clock = std::chrono::steady_clock;
  const Read read = widest();
  const std::size_t rounds = kRead / std::size_t(threads_) / kStep;
  const auto* memory = static_cast<const char*>(memory_.get());
  std::atomic<int> missing = threads_;
  Clock::time_point begin;
  const auto work = [&](int t) {
    for (--missing; missing > 0;) std::this_thread::yield();
    if (t == 0) begin = Clock::now();
    if (rounds > 0) read(memory + std::size_t(t) * rounds * kStep, rounds);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads_; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return double(rounds * kStep) * threads_ / seconds * 1e-9;
}

}  // namespace tessera::tool
