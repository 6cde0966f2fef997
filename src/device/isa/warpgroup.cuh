// Words of sm_90a for warps and groups of four warps. PTX world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE int warpgroup() { return int(threadIdx.x / 128); }

// PTX ISA, "elect.sync": true in one lane of the warp, the same each time.
TS_DEVICE bool elect() {
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(chosen));
  return chosen != 0;
}

// PTX ISA, "setmaxnreg": each thread of the warpgroup has `count` registers from now on; those it
// gives go to a pool of the block, those it takes come from there once there are enough. A multiple
// of 8 from 24 to 256.
template <int count> TS_DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> TS_DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// PTX ISA, "stmatrix.x4": four 8 x 8 matrices of 16-bit elements. Lane 8i + r gives the address of
// row r of matrix i; register i of a lane holds elements (g, 2t) and (g, 2t + 1) of matrix i, with
// g = lane / 4 and t = lane % 4.
TS_DEVICE void store_matrices(Address row, Vector4 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(u32(row)),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace tessera::device::isa
