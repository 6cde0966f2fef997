// When a vector is loaded, as a word. Compiled once per target.
#if defined(TESSERA_CPU_ISA_HELD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ISA_HELD_INL_HPP
#undef TESSERA_CPU_ISA_HELD_INL_HPP
#else
#define TESSERA_CPU_ISA_HELD_INL_HPP
#endif

#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// x, in a register from here on: what is loaded early is in flight early. Left to itself the
// compiler moves a load to the multiplication. Targets with 16 registers have none to spare.
template <class W> HWY_INLINE W held(W x) {
#if HWY_TARGET <= HWY_AVX3
  asm volatile("" : "+v"(x.raw));
#endif
  return x;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
