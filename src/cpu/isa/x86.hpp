// What an x86 processor can do and the operating system saves between threads, by CPUID and XGETBV.
// __builtin_cpu_supports asks the run-time library of its compiler; that of zig 0.17, which builds
// the wheels, answers no to everything.
#pragma once
#include <cstdint>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>

namespace tessera::cpu::x86 {

struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// SDM, CPUID: a leaf, zeros where the processor has no such leaf.
inline Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

// SDM, XGETBV of XCR0: the state that the system saves; none where it does not say (OSXSAVE).
inline std::uint32_t saved_state() {
  constexpr std::uint32_t kOsxsave = 1u << 27;
  if ((cpuid(1).ecx & kOsxsave) == 0) return 0;
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// One bit for each answer of CPUID that a target of ours asks for.
struct Features {
  bool sse42, avx2, avx512, avx512bf16, amx;
  bool intel;  // who made it
};

inline Features detect() {
  const auto has = [](std::uint32_t word, std::initializer_list<int> bits) {
    std::uint32_t wanted = 0;
    for (const int bit : bits) wanted |= 1u << bit;
    return (word & wanted) == wanted;
  };
  const Registers basic = cpuid(1), extended = cpuid(7), more = cpuid(7, 1);
  const std::uint32_t saved = saved_state();
  const bool ymm = has(saved, {1, 2}), zmm = ymm && has(saved, {5, 6, 7});
  Features f{};
  f.sse42 = has(basic.ecx, {20});
  f.avx2 = ymm && has(basic.ecx, {12, 28, 29}) && has(extended.ebx, {5, 8});  // FMA, F16C, BMI2 too
  f.avx512 = zmm && f.avx2 && has(extended.ebx, {16, 17, 30, 31});            // F, DQ, BW, VL
  f.avx512bf16 = f.avx512 && extended.eax >= 1 && has(more.eax, {5});
  f.amx = f.avx512bf16 && has(saved, {17, 18}) && has(extended.edx, {22, 24});  // BF16, TILE
  f.intel = cpuid(0).ebx == 0x756e6547;  // "Genu" of GenuineIntel
  return f;
}

inline const Features& features() {
  static const Features found = detect();
  return found;
}

}  // namespace tessera::cpu::x86
#endif
