// Words of sm_90a for warps and groups of four warps. Software world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE int warpgroup() { return emulator::self->index / 128; }

TS_DEVICE bool elect(Site at = here()) { return emulator::self->block->elect({"elect.sync", at}); }

template <int count> TS_DEVICE void registers_give(Site at = here()) {
  emulator::self->block->set_registers(count, false, {"setmaxnreg.dec", at});
}
template <int count> TS_DEVICE void registers_take(Site at = here()) {
  emulator::self->block->set_registers(count, true, {"setmaxnreg.inc", at});
}

struct MatrixRows {
  u32 value[4], out[4];
};
TS_DEVICE void store_matrices(Address row, Vector4 v, Site at = here()) {
  MatrixRows mine{{v.x, v.y, v.z, v.w}, {}};
  for (const u32 x : mine.value) emulator::use(x, {"stmatrix", at});
  emulator::self->block->meet({"stmatrix", at}, mine, [](MatrixRows** lanes) {
    for (int i = 0; i < 32; ++i)  // lane i writes row i % 8 of matrix i / 8
      for (int j = 0; j < 4; ++j) lanes[i]->out[j] = lanes[i % 8 * 4 + j]->value[i / 8];
  });
  emulator::self->block->write(u32(row), mine.out, 16, {"stmatrix", at});
}

}  // namespace tessera::device::isa
