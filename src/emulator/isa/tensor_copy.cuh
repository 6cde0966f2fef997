// The copy engine: tiles of tensors between global and shared memory. Software world.
#pragma once
#include <cstddef>

#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE void fence_async() { emulator::self->block->fence_async(); }

template <int rank>
TS_DEVICE emulator::TileCall tile_call(const TensorMap& map, Address shared, Coordinates<rank> c) {
  emulator::TileCall call{map, {}, rank, u32(shared)};
  for (int d = 0; d < rank; ++d) call.corner[std::size_t(d)] = c.at[d];
  return call;
}

template <int rank>
TS_DEVICE void tensor_load(Address to, const TensorMap& map, Address barrier, Coordinates<rank> c,
                           Site at = here()) {
  emulator::self->block->engine.load(tile_call(map, to, c), u32(barrier),
                                     {"cp.async.bulk.tensor (load)", at});
}
template <int rank>
TS_DEVICE void tensor_store(const TensorMap& map, Address from, Coordinates<rank> c,
                            Site at = here()) {
  emulator::self->block->engine.store(tile_call(map, from, c),
                                      {"cp.async.bulk.tensor (store)", at});
}

TS_DEVICE void store_commit() { emulator::self->block->engine.commit(); }
template <int pending> TS_DEVICE void store_wait(Site at = here()) {
  emulator::self->block->engine.wait(pending, false, {"cp.async.bulk.wait_group", at});
}
template <int pending> TS_DEVICE void store_wait_read(Site at = here()) {
  emulator::self->block->engine.wait(pending, true, {"cp.async.bulk.wait_group.read", at});
}

}  // namespace tessera::device::isa
