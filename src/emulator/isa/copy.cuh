// Copies from global to shared memory that land when they like. Software world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE void copy_async(Address to, const void* from, u32 bytes, Site at = here()) {
  emulator::self->block->copy({.to = u32(to), .from = from, .bytes = bytes}, {"cp.async", at});
}
TS_DEVICE void copy_async(Address to, const void* from, Site at = here()) {
  copy_async(to, from, 16, at);
}
TS_DEVICE void copy_commit() { emulator::self->block->commit(); }
template <int pending> TS_DEVICE void copy_wait(Site at = here()) {
  emulator::self->block->wait_copies(u32(pending), {"cp.async.wait_group", at});
}

}  // namespace tessera::device::isa
