// Between float32 and 16 bits, to nearest even. PTX world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// "cvt.f32.f16"; bfloat16 is the upper half of a float32.
TS_DEVICE float to_float(Float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
TS_DEVICE float to_float(Bfloat16 x) { return __uint_as_float(u32(x.bits) << 16); }
TS_DEVICE float to_float(float x) { return x; }

// "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32": `low` goes to the low half.
template <class T> TS_DEVICE u32 pack(float low, float high);
template <> TS_DEVICE u32 pack<Float16>(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
template <> TS_DEVICE u32 pack<Bfloat16>(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace tessera::device::isa
