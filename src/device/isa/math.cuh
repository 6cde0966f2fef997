// Arithmetic that has an instruction of its own. PTX world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// "ex2.approx.ftz.f32": 2^x to 2 ulp; 2^-inf = +0, subnormal results are 0.
TS_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// "lg2.approx.ftz.f32": log2(0) = -inf.
TS_DEVICE float log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// "max.f32": of a number and a NaN, the number.
TS_DEVICE float max(float a, float b) { return fmaxf(a, b); }
// "fma.rn.f32", "fma.rn.f64": rounded once.
TS_DEVICE float fma(float a, float b, float c) { return fmaf(a, b, c); }
TS_DEVICE double fma(double a, double b, double c) { return ::fma(a, b, c); }
// "abs.f32"
TS_DEVICE float abs(float x) { return fabsf(x); }

}  // namespace tessera::device::isa
