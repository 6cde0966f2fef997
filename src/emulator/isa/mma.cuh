// The tensor core of sm_80, one warp at a time: 16 x 8 sums of 16 products each. Software world.
#pragma once
#include "emulator/tensor_core.hpp"

#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE Vector4 load_matrices(Address row, Site at = here()) {
  return emulator::load_matrices(u32(row), false, {"ldmatrix", at});
}
TS_DEVICE Vector4 load_matrices_transposed(Address row, Site at = here()) {
  return emulator::load_matrices(u32(row), true, {"ldmatrix.trans", at});
}

template <class T> TS_DEVICE void mma(float* d, const u32* a, const u32* b, Site at = here());
template <> TS_DEVICE void mma<Float16>(float* d, const u32* a, const u32* b, Site at) {
  emulator::multiply(emulator::Operands::kFloat16, d, a, b, {"mma.sync", at});
}
template <> TS_DEVICE void mma<Bfloat16>(float* d, const u32* a, const u32* b, Site at) {
  emulator::multiply(emulator::Operands::kBfloat16, d, a, b, {"mma.sync", at});
}

}  // namespace tessera::device::isa
