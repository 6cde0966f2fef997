#include "tools/tessera/peak.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera::tool {

struct PeakUnit {
  std::string_view name;
  core::DType dtype;
  bool (*present)();
  void (*repeat)(long rounds);
  double flops;  // of one round
};

namespace {

// The widest first of each type. Twelve independent sums outnumber ports times latency, and the
// operands stay in registers, so nothing but the multiply-add is measured.
#if defined(__x86_64__)
const unsigned kOperand = 0x3c003c00;  // 2^-7: as a float, and as a pair of bfloat16

void fma256(long rounds) {
  asm volatile(
      "vzeroall\n vbroadcastss %1, %%ymm14\n vbroadcastss %1, %%ymm15\n"
      "1: .irp i,0,1,2,3,4,5,6,7,8,9,10,11\n vfmadd231ps %%ymm14, %%ymm15, %%ymm\\i\n .endr\n"
      "dec %0\n jnz 1b\n vzeroupper"
      : "+r"(rounds)
      : "m"(kOperand)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

void fma512(long rounds) {
  asm volatile(
      "vzeroall\n vbroadcastss %1, %%zmm14\n vbroadcastss %1, %%zmm15\n"
      "1: .irp i,0,1,2,3,4,5,6,7,8,9,10,11\n vfmadd231ps %%zmm14, %%zmm15, %%zmm\\i\n .endr\n"
      "dec %0\n jnz 1b\n vzeroupper"
      : "+r"(rounds)
      : "m"(kOperand)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

void dot512(long rounds) {
  asm volatile(
      "vzeroall\n vbroadcastss %1, %%zmm14\n vbroadcastss %1, %%zmm15\n"
      "1: .irp i,0,1,2,3,4,5,6,7,8,9,10,11\n vdpbf16ps %%zmm14, %%zmm15, %%zmm\\i\n .endr\n"
      "dec %0\n jnz 1b\n vzeroupper"
      : "+r"(rounds)
      : "m"(kOperand)
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

// AMX palette 1: eight tiles of 16 rows of 64 bytes.
const struct {
  char palette = 1, rest[15] = {};
  short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
} kTiles;

// Tiles of zeros are multiplied as fast as others.
void tiles(long rounds) {
  asm volatile(
      "ldtilecfg %1\n"
      "1: .irp i,0,1,2,3,4,5\n tdpbf16ps %%tmm7, %%tmm6, %%tmm\\i\n .endr\n"
      "dec %0\n jnz 1b\n tilerelease"
      : "+r"(rounds)
      : "m"(kTiles)
      : "cc");
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
bool has_avx512bf16() { return __builtin_cpu_supports("avx512bf16"); }
// Linux grants the tile state (feature 18) to a process that asks for it (ARCH_REQ_XCOMP_PERM).
bool has_amx() {
  return __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

constexpr PeakUnit kUnits[] = {
    {"bfloat16 AMX tdpbf16ps", core::DType::kBfloat16, has_amx, tiles, 6 * 2 * 16 * 16 * 32},
    {"bfloat16 AVX512-BF16 vdpbf16ps", core::DType::kBfloat16, has_avx512bf16, dot512, 12 * 2 * 32},
    {"float32 FMA", core::DType::kFloat32, has_avx512, fma512, 12 * 2 * 16},
    {"float32 FMA", core::DType::kFloat32, has_avx2, fma256, 12 * 2 * 8},
};
#else
constexpr std::span<const PeakUnit> kUnits;
#endif

const PeakUnit* widest(core::DType dtype) {
  for (const PeakUnit& unit : kUnits)
    if ((unit.dtype == dtype || unit.dtype == core::DType::kFloat32) && unit.present())
      return &unit;
  return nullptr;
}

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

constexpr double kBurstSeconds = 0.009;

// GFLOP/s of this thread, once all have begun.
double measure(const PeakUnit& unit, std::atomic<int>& missing) {
  for (--missing; missing > 0;) std::this_thread::yield();
  const auto begin = steady_clock::now();
  double flops = 0, seconds = 0;
  for (; seconds < kBurstSeconds; seconds = seconds_since(begin)) {
    unit.repeat(1000);
    flops += 1000 * unit.flops;
  }
  return flops / seconds * 1e-9;
}

}  // namespace

Peak::Peak(core::DType dtype, int threads) : unit_(widest(dtype)), threads_(threads) {}

std::string_view Peak::name() const { return present() ? unit_->name : std::string_view(); }

double Peak::burst() {
  if (!present()) return 0;
  std::atomic<int> missing = threads_;
  std::vector<double> rates(std::size_t(threads_), 0.);
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < rates.size(); ++t)
    others.emplace_back([&, t] { rates[t] = measure(*unit_, missing); });
  rates[0] = measure(*unit_, missing);
  for (std::thread& t : others) t.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  best_ = std::max(best_, sum);
  return sum;
}

}  // namespace tessera::tool
