// AVX512-BF16, one word per instruction. The words are assembly, so that they belong to the same
// target of the compiler as the loops that call them.
#if defined(TESSERA_CPU_ISA_AVX512BF16_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ISA_AVX512BF16_INL_HPP
#undef TESSERA_CPU_ISA_AVX512BF16_INL_HPP
#else
#define TESSERA_CPU_ISA_AVX512BF16_INL_HPP
#endif

#include "cpu/tiles-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// SDM, VDPBF16PS: c + a.low b.low + a.high b.high in each lane. Subnormal numbers count as 0.
HWY_INLINE V dot(V a, V b, V c) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(c.raw) : "v"(a.raw), "v"(b.raw));
  return c;
}

// SDM, VCVTNE2PS2BF16: the lanes of low, then those of high, to nearest even.
HWY_INLINE __m512i round_both(V low, V high) {
  __m512i both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low.raw), "v"(high.raw));
  return both;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
