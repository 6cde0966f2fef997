// Ceilings of this processor: multiply-add peaks from registers alone, and read bandwidth.
// As a library:  g++ -O3 -std=c++17 -pthread -shared -fPIC peak.cpp -o libpeak.so
// As a program:  g++ -O3 -std=c++17 -pthread peak.cpp -o peak && ./peak [THREADS]
// x86-64 Linux with AVX2 at least; AVX-512, AVX512-BF16 and AMX where found at run time.
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

namespace {
const unsigned kOperand = 0x3c003c00;  // 2^-7: as a float, and as a pair of bfloat16
const struct {                         // AMX palette 1: eight tiles of 16 rows of 64 bytes
  char palette = 1, rest[15] = {};
  short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
} kTiles;

// Repeats STEP on each of SUMS, independent sums that outnumber ports times latency. The operands
// stay in registers 14 and 15 (tiles 6 and 7), so that nothing but the multiply-add is measured.
#define LOOP(SETUP, SUMS, STEP)                                                                \
  asm volatile(SETUP "\n1: .irp i," SUMS "\n " STEP "\n .endr\n dec %0\n jnz 1b\n vzeroupper"  \
               : "+r"(rounds)                                                                  \
               : "m"(kOperand), "m"(kTiles)                                                    \
               : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                 "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
#define VECTORS(R) "vzeroall\n vbroadcastss %1, %%" R "mm14\n vbroadcastss %1, %%" R "mm15"
#define TWELVE "0,1,2,3,4,5,6,7,8,9,10,11"
void fma256(long rounds) { LOOP(VECTORS("y"), TWELVE, "vfmadd231ps %%ymm14, %%ymm15, %%ymm\\i"); }
void fma512(long rounds) { LOOP(VECTORS("z"), TWELVE, "vfmadd231ps %%zmm14, %%zmm15, %%zmm\\i"); }
void dot512(long rounds) { LOOP(VECTORS("z"), TWELVE, "vdpbf16ps %%zmm14, %%zmm15, %%zmm\\i"); }
void tiles(long rounds) { LOOP("ldtilecfg %2", "0,1,2,3,4,5", "tdpbf16ps %%tmm7,%%tmm6,%%tmm\\i"); }

bool avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool avx512() { return __builtin_cpu_supports("avx512f"); }
bool avx512bf16() { return __builtin_cpu_supports("avx512bf16"); }
bool amx() {  // Linux grants the tile state (feature 18) to a process that asks for it (0x1023)
  return __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

const struct {
  const char* name;
  bool (*present)();
  void (*repeat)(long);
  double flops;
} kUnits[] = {
    {"bf16 AMX", amx, tiles, 6 * 2 * 16 * 16 * 32},  // the widest first; flops of one round
    {"bf16 AVX-512", avx512bf16, dot512, 12 * 2 * 32},
    {"fp32 AVX-512", avx512, fma512, 12 * 2 * 16},
    {"fp32 AVX2", avx2, fma256, 12 * 2 * 8}};

__attribute__((target("avx2"))) void read(const char* from, size_t bytes) {
  __m256i any[8] = {};
  for (auto p = (const __m256i*)from, end = p + bytes / sizeof *p; p < end; p += 8)
    for (int i = 0; i < 8; ++i) any[i] = _mm256_or_si256(any[i], p[i]);
  for (auto& a : any) asm volatile("" ::"x"(a));  // keeps the loads alive
}

using namespace std::literals;
double now() { return std::chrono::steady_clock::now().time_since_epoch() / 1.0ns; }

template <class Job> double rate(int threads, Job job) {  // sum over the threads of work per ns
  std::atomic<int> ready{0};
  std::vector<std::future<double>> rates;
  for (int t = 0; t < threads; ++t)
    rates.push_back(std::async(std::launch::async, [&, t] {
      for (++ready; ready < threads;) std::this_thread::yield();
      const double start = now(), work = job(t);
      return work / (now() - start);
    }));
  auto add = [](double sum, auto& r) { return sum + r.get(); };
  return std::accumulate(rates.begin(), rates.end(), 0.0, add);
}
}  // namespace

// The widest unit for "bf16" (an fp32 unit where there is no other) or "fp32"; -1 if there is none.
extern "C" int peak_unit(const char* dtype) {
  for (int u = 0; u < 4; ++u)
    if ((*dtype == 'b' || *kUnits[u].name == 'f') && kUnits[u].present()) return u;
  return -1;
}
extern "C" const char* peak_name(int unit) { return kUnits[unit].name; }
extern "C" double peak_gflops(int unit, int threads, double seconds) {  // all threads together
  return rate(threads, [&](int) {
    double flops = 0;
    for (const double end = now() + 1e9 * seconds; now() < end; flops += 1000 * kUnits[unit].flops)
      kUnits[unit].repeat(1000);
    return flops;
  });
}
// GB/s of all threads together, each reading its own `bytes` (a multiple of 256) `passes` times.
extern "C" double peak_read(int threads, size_t bytes, int passes) {
  static char* buffer = nullptr;  // shared, so calls must not overlap
  static size_t size = 0;
  if (size < threads * bytes) {
    std::free(buffer);
    size = threads * bytes;
    buffer = static_cast<char*>(std::aligned_alloc(2 << 20, (size + (2 << 20)) >> 21 << 21));
    madvise(buffer, size, MADV_HUGEPAGE);
    std::fill_n(buffer, size, 1);  // untouched pages would all be one page of zeros
  }
  return rate(threads, [&](int t) {
    for (int p = 0; p < passes; ++p) read(buffer + t * bytes, bytes);
    return double(bytes) * passes;
  });
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto print = [](const char* name, auto measure) {
    double best = 0;
    for (int i = 0; i < 15; ++i) best = std::max(best, measure());
    std::printf("%-14s %8.1f\n", name, best);
  };
  for (int u = 0; u < 4; ++u)
    if (kUnits[u].present()) print(kUnits[u].name, [&] { return peak_gflops(u, threads, 0.02); });
  print("read, GB/s", [&] { return peak_read(threads, 256 << 20, 1); });
}
