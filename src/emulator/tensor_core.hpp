// What a warp does with matrices: ldmatrix and mma.m16n8k16.
#pragma once
#include "device/types.cuh"
#include "emulator/block.hpp"
#include "emulator/warpgroup.hpp"

namespace tessera::emulator {

// Lane 8i + r gives the address of row r of matrix i.
device::Vector4 load_matrices(u32 row, bool transposed, Where where);

// D += A B; each lane gives its registers.
void multiply(Operands type, float* d, const u32* a, const u32* b, Where where);

}  // namespace tessera::emulator
