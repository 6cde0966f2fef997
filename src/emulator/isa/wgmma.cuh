// The tensor core of sm_90a, a warpgroup at a time: 64 x n sums of 16 products each, which run on
// their own time. Software world.
#pragma once
#include <string>

#include <isa/thread.cuh>

namespace tessera::device::isa {

template <class T> inline constexpr emulator::Operands kOperands = emulator::Operands::kBfloat16;
template <> inline constexpr emulator::Operands kOperands<Float16> = emulator::Operands::kFloat16;

TS_DEVICE u32 sixteens(u32 bytes, emulator::Where where) {
  if (bytes % 16 != 0)
    emulator::self->block->report(where, std::to_string(bytes) + " is not a multiple of 16 bytes");
  return bytes >> 4;
}
TS_DEVICE u64 matrix(Address start, u32 leading, u32 stride, Swizzle swizzle, Site at = here()) {
  const emulator::Where where{"matrix descriptor", at};
  return u64(sixteens(u32(start) & 0x3ffff, where)) | u64(sixteens(leading, where)) << 16 |
         u64(sixteens(stride, where)) << 32 | u64(swizzle) << 62;
}
TS_DEVICE u64 advance(u64 descriptor, u32 bytes, Site at = here()) {
  return descriptor + sixteens(bytes, {"matrix descriptor", at});
}

template <int n> TS_DEVICE void wgmma_fence(Registers<float, n>& d, Site at = here()) {
  emulator::wgmma_fence(d, nullptr, {"wgmma.fence", at});
}
template <int n, int m>
TS_DEVICE void wgmma_fence(Registers<float, n>& d, Registers<u32, m>& a, Site at = here()) {
  emulator::wgmma_fence(d, &a, {"wgmma.fence", at});
}

template <class T, Major a_major, Major b_major, int n>
TS_DEVICE void wgmma(Registers<float, n>& d, u64 a, u64 b, bool accumulate, Site at = here()) {
  emulator::wgmma({{"wgmma.mma_async", at},
                   kOperands<T>,
                   &d,
                   d.value,
                   2 * n,
                   nullptr,
                   nullptr,
                   a,
                   b,
                   a_major,
                   b_major,
                   accumulate});
}
template <int m> struct StepOf {
  Registers<u32, m>& a;
  int step;
};
template <int m> TS_DEVICE StepOf<m> step_of(Registers<u32, m>& a, int step) { return {a, step}; }
template <class T, Major b_major, int n, int m>
TS_DEVICE void wgmma(Registers<float, n>& d, StepOf<m> a, u64 b, bool accumulate,
                     Site at = here()) {
  emulator::wgmma({{"wgmma.mma_async", at},
                   kOperands<T>,
                   &d,
                   d.value,
                   2 * n,
                   &a.a,
                   a.a.value + 4 * a.step,
                   0,
                   b,
                   Major::kK,
                   b_major,
                   accumulate});
}

template <int n> TS_DEVICE void wgmma_commit(Registers<float, n>&, Site at = here()) {
  emulator::wgmma_commit({"wgmma.commit_group", at});
}
template <int pending, int n> TS_DEVICE void wgmma_wait(Registers<float, n>& d, Site at = here()) {
  emulator::wgmma_wait(pending, d, {"wgmma.wait_group", at});
}

}  // namespace tessera::device::isa
