// Between float32 and 16 bits, to nearest even. Software world.
#pragma once
#include "core/dtype.hpp"

#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE float to_float(Float16 x) { return core::float_from_float16(x.bits); }
TS_DEVICE float to_float(Bfloat16 x) { return core::float_from_bfloat16(x.bits); }
TS_DEVICE float to_float(float x) { return x; }

template <class T> TS_DEVICE u32 pack(float low, float high, Site at = here());
template <> TS_DEVICE u32 pack<Float16>(float low, float high, Site at) {
  emulator::use(low, {"cvt.rn.f16x2", at});
  emulator::use(high, {"cvt.rn.f16x2", at});
  return core::float16_from_float(low) | u32(core::float16_from_float(high)) << 16;
}
template <> TS_DEVICE u32 pack<Bfloat16>(float low, float high, Site at) {
  emulator::use(low, {"cvt.rn.bf16x2", at});
  emulator::use(high, {"cvt.rn.bf16x2", at});
  return core::bfloat16_from_float(low) | u32(core::bfloat16_from_float(high)) << 16;
}

}  // namespace tessera::device::isa
