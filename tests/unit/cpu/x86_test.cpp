// What we read from CPUID, against the compiler's run-time library.
#include "cpu/isa/x86.hpp"

#include <gtest/gtest.h>

#if defined(__x86_64__)
namespace tessera::cpu::x86 {
namespace {

TEST(X86, AgreesWithTheCompilersRunTimeLibrary) {
  const Features& f = features();
  EXPECT_EQ(f.sse42, __builtin_cpu_supports("sse4.2") != 0);
  EXPECT_EQ(f.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi2"));
  EXPECT_EQ(f.avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(f.avx512bf16, f.avx512 && __builtin_cpu_supports("avx512bf16"));
}

// A leaf that no processor has reads as zeros, so that nothing is found there.
TEST(X86, AnUnknownLeafIsEmpty) {
  const Registers r = cpuid(0x7ffffff0);
  EXPECT_EQ(r.eax | r.ebx | r.ecx | r.edx, 0u);
}

}  // namespace
}  // namespace tessera::cpu::x86
#endif
