// Decoding as a share of the read bandwidth of the same process, which is measured before and after
// every sample, since it changes: one query, 32 heads over 8 key heads, D 128, 16384 keys, on pages
// of 2 MiB where the system lends them.
//
//   chrt -f 1 bench_decode [threads, else 2]
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tessera/tessera.h"

namespace {

constexpr std::int64_t kKeys = 16384, kHeads = 32, kKvHeads = 8, kDim = 128, kSamples = 15;
constexpr std::size_t kRead = std::size_t{256} << 20, kHuge = std::size_t{2} << 20;

// Touched bytes on a boundary of 2 MiB, kept until the program ends.
char* pages(std::size_t bytes) {
  bytes = (bytes + kHuge - 1) / kHuge * kHuge;
  auto* memory = static_cast<char*>(std::aligned_alloc(kHuge, bytes));
  if (memory == nullptr) std::exit(1);
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return memory;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::atomic<std::uint64_t> sink;

using Words = std::uint64_t __attribute__((vector_size(64)));

// Reads a cache line at a time, with the widest vectors of the processor: narrower ones read less.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void read_part(const char* from, std::size_t bytes) {
  Words sums[4] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256)
    for (std::size_t w = 0; w < 4; ++w) {
      __builtin_prefetch(from + i + 64 * w + 1024, 0, 2);
      sums[w] ^= *reinterpret_cast<const Words*>(from + i + 64 * w);
    }
  sink += sums[0][0] + sums[1][1] + sums[2][2] + sums[3][3];
}

// GB/s of all threads together.
double read_bandwidth(const char* from, int threads) {
  std::atomic<int> missing = threads;
  const auto part = kRead / std::size_t(threads) / 64 * 64;
  Clock::time_point begin;
  const auto work = [&](int t) {
    for (--missing; missing > 0;) std::this_thread::yield();
    if (t == 0) begin = Clock::now();
    read_part(from + std::size_t(t) * part, part);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  return double(part) * threads / seconds_since(begin) * 1e-9;
}

struct Type {
  const char* name;
  std::uint32_t dtype;
  std::size_t size;
  std::uint16_t quarter;  // the upper bits of 0.25
};

void fill(char* to, std::size_t bytes, const Type& type) {
  for (std::size_t i = 0; i + type.size <= bytes; i += type.size)
    std::memcpy(to + i + type.size - 2, &type.quarter, 2);
}

// [1, kKeys, Hk, D], as [B, H, L, D] or [B, L, H, D] in memory.
tessera_tensor keys(char* data, const Type& type, bool heads_first) {
  tessera_tensor t = tessera_tensor_dense(data, type.dtype, 1, kKeys, kKvHeads, kDim);
  if (heads_first) t.stride[1] = kDim, t.stride[2] = kKeys * kDim;
  return t;
}

void measure(tessera_context* context, const Type& type, bool heads_first, int threads) {
  const std::size_t bytes = std::size_t(kKeys * kKvHeads * kDim) * type.size;
  static char *const k = pages(std::size_t{64} << 20), *const v = pages(std::size_t{64} << 20);
  static char *const q = pages(65536), *const out = pages(65536), *const other = pages(kRead);
  for (char* memory : {k, v}) fill(memory, bytes, type);
  fill(q, std::size_t(kHeads * kDim) * type.size, type);
  tessera_attention_desc desc = tessera_attention_desc_default();
  desc.q = tessera_tensor_dense(q, type.dtype, 1, 1, kHeads, kDim);
  desc.out = tessera_tensor_dense(out, type.dtype, 1, 1, kHeads, kDim);
  desc.k = keys(k, type, heads_first), desc.v = keys(v, type, heads_first);
  tessera_error error = tessera_error_default();
  std::vector<double> shares, rates;
  double before = read_bandwidth(other, threads);
  for (int i = -2; i < kSamples; ++i) {
    const auto begin = Clock::now();
    if (tessera_attention(context, &desc, &error) != TESSERA_OK) std::puts(error.message);
    const double rate = 2 * double(bytes) / seconds_since(begin) * 1e-9;
    const double after = read_bandwidth(other, threads);
    if (i >= 0) shares.push_back(rate / std::max(before, after)), rates.push_back(rate);
    before = after;
  }
  std::sort(shares.begin(), shares.end()), std::sort(rates.begin(), rates.end());
  std::printf(
      "%-9s %s  %5.1f GB/s best, %5.1f median; of the read bandwidth %.0f %% median, "
      "%.0f %% best (reads %.1f now)\n",
      type.name, heads_first ? "[B, H, L, D]" : "[B, L, H, D]", rates.back(), rates[kSamples / 2],
      100 * shares[kSamples / 2], 100 * shares.back(), before);
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 2;
  tessera_context_config config = tessera_context_config_default();
  config.threads = threads;
  tessera_context* context = nullptr;
  if (tessera_context_create(&config, &context, nullptr) != TESSERA_OK) return 1;
  constexpr Type kTypes[] = {{"float32", TESSERA_FLOAT32, 4, 0x3e80},
                             {"bfloat16", TESSERA_BFLOAT16, 2, 0x3e80},
                             {"float16", TESSERA_FLOAT16, 2, 0x3400}};
  for (const Type& type : kTypes)
    for (const bool heads_first : {true, false}) measure(context, type, heads_first, threads);
  tessera_context_destroy(context);
}
