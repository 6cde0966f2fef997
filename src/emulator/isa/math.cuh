// Arithmetic that has an instruction of its own. Software world.
#pragma once
#include <cmath>
#include <limits>

#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE float exp2(float x, Site at = here()) {
  emulator::use(x, {"ex2", at});
  const float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0 : y;  // subnormals are flushed
}
TS_DEVICE float log2(float x, Site at = here()) {
  emulator::use(x, {"lg2", at});
  const bool flushed = std::abs(x) < std::numeric_limits<float>::min();
  return std::log2(flushed ? 0 : x);
}
TS_DEVICE float max(float a, float b, Site at = here()) {
  emulator::use(a, {"max", at});
  emulator::use(b, {"max", at});
  return a != a || b > a ? b : a;
}
TS_DEVICE float fma(float a, float b, float c) { return float(double(a) * double(b) + double(c)); }
TS_DEVICE double fma(double a, double b, double c) { return a * b + c; }
TS_DEVICE float abs(float x) { return std::fabs(x); }

}  // namespace tessera::device::isa
