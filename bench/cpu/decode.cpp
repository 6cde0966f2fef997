// Decoding as a share of the read bandwidth of the same process, which is measured before and after
// every sample, since it changes: one query, 32 heads over 8 key heads, D 128, 16384 keys, on pages
// of 2 MiB where the system lends them.
//
//   chrt -f 1 bench_decode [threads, else 2]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tessera/tessera.h"
#include "tools/tessera/read_rate.hpp"

namespace {

constexpr std::int64_t kKeys = 16384, kHeads = 32, kKvHeads = 8, kDim = 128, kSamples = 15;

// Kept until the program ends.
char* pages(std::size_t bytes) {
  static std::vector<std::shared_ptr<void>> kept;
  kept.push_back(tessera::tool::huge_pages(bytes));
  return static_cast<char*>(kept.back().get());
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
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
  static char *const q = pages(65536), *const out = pages(65536);
  static const tessera::tool::ReadRate reads(threads);
  for (char* memory : {k, v}) fill(memory, bytes, type);
  fill(q, std::size_t(kHeads * kDim) * type.size, type);
  tessera_attention_desc desc = tessera_attention_desc_default();
  desc.q = tessera_tensor_dense(q, type.dtype, 1, 1, kHeads, kDim);
  desc.out = tessera_tensor_dense(out, type.dtype, 1, 1, kHeads, kDim);
  desc.k = keys(k, type, heads_first), desc.v = keys(v, type, heads_first);
  tessera_error error = tessera_error_default();
  std::vector<double> shares, rates;
  double before = reads.burst();
  for (int i = -2; i < kSamples; ++i) {
    const auto begin = Clock::now();
    if (tessera_attention(context, &desc, &error) != TESSERA_OK) std::puts(error.message);
    const double rate = 2 * double(bytes) / seconds_since(begin) * 1e-9;
    const double after = reads.burst();
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
