// Every target of this compiler, and the table of them. Nothing of libhwy is needed.
// Without COMPILE_ALL, Highway leaves scalar out where better vectors are always there (NEON).
// Vectors of unknown size cannot be elements of an array of sums.
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/targets.cpp"
#include <hwy/foreach_target.h>
//
#include "cpu/backward_amx-inl.hpp"

#if HWY_ONCE
#include <span>

#include "cpu/isa/x86.hpp"

namespace tessera::cpu {

std::span<const Target> target_table() {
  static const Target table[] = {
#if HWY_TARGETS & HWY_AVX3
      N_AVX3::amx_target("amx", amx::granted),
      N_AVX3::bfloat16_target("avx512bf16", [] { return x86::features().avx512bf16; }),
      N_AVX3::target("avx512", [] { return x86::features().avx512; }),
#endif
#if HWY_TARGETS & HWY_AVX2
      N_AVX2::target("avx2", [] { return x86::features().avx2; }),
#endif
#if HWY_TARGETS & HWY_SSE4
      N_SSE4::target("sse4", [] { return x86::features().sse42; }),
#endif
#if HWY_TARGETS & HWY_NEON
      N_NEON::target("neon", [] { return true; }),
#endif
#if HWY_TARGETS & HWY_WASM
      N_WASM::target("wasm", [] { return true; }),
#endif
#if HWY_TARGETS & HWY_SCALAR
      N_SCALAR::target("scalar", [] { return true; }),
#elif HWY_TARGETS & HWY_EMU128  // what clang generates instead
      N_EMU128::target("scalar", [] { return true; }),
#endif
  };
  return table;
}

}  // namespace tessera::cpu
#endif
