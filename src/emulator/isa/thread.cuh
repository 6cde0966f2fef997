// Who am I, and what a warp or a block says together. Software world.
#pragma once
#include "device/types.cuh"
#include "emulator/grid.hpp"
#include "emulator/registers.hpp"

#define TS_DEVICE inline
#define TS_OUTLINE inline
#define TS_UNROLL
#define TS_ROLL

namespace tessera::device::isa {

using emulator::here;
using emulator::Registers;
using emulator::Site;

TS_DEVICE int thread() { return emulator::self->index; }
TS_DEVICE int lane() { return emulator::self->index % 32; }
TS_DEVICE int warp() { return emulator::self->index / 32; }
TS_DEVICE Index3 block() { return emulator::self->block->at(); }
TS_DEVICE Index3 grid() { return emulator::self->block->grid().launch().grid; }

TS_DEVICE int again(int i) { return i; }
TS_DEVICE Index3 block_again() { return block(); }

TS_DEVICE void role(const char* name) { emulator::self->role = name; }

template <class T> struct Shuffle {
  T value;
  int from;
  T out;
};
template <class T> T exchange(Shuffle<T> mine, emulator::Where where) {
  emulator::use(mine.value, where);
  emulator::self->block->meet(where, mine, [](Shuffle<T>** lanes) {
    for (int i = 0; i < 32; ++i) lanes[i]->out = lanes[lanes[i]->from & 31]->value;
  });
  return mine.out;
}
TS_DEVICE float shuffle(float value, int lane, Site at = here()) {
  return exchange<float>({value, lane, 0}, {"shfl.sync.idx", at});
}
TS_DEVICE float shuffle_xor(float value, int mask, Site at = here()) {
  return exchange<float>({value, lane() ^ mask, 0}, {"shfl.sync.bfly", at});
}
TS_DEVICE u32 shuffle_xor(u32 value, int mask, Site at = here()) {
  return exchange<u32>({value, lane() ^ mask, 0}, {"shfl.sync.bfly", at});
}
TS_DEVICE bool any(bool value, Site at = here()) {
  bool mine = value;
  emulator::self->block->meet({"vote.sync.any", at}, mine, [](bool** lanes) {
    bool all = false;
    for (int i = 0; i < 32; ++i) all = all || *lanes[i];
    for (int i = 0; i < 32; ++i) *lanes[i] = all;
  });
  return mine;
}

TS_DEVICE void sync_warp(Site at = here()) {
  emulator::self->block->sync_warp({"bar.warp.sync", at});
}
TS_DEVICE void barrier_sync(int id, int threads, Site at = here()) {
  emulator::self->block->sync({id, threads, true}, {"bar.sync", at});
}
TS_DEVICE void barrier_arrive(int id, int threads, Site at = here()) {
  emulator::self->block->sync({id, threads, false}, {"bar.arrive", at});
}
TS_DEVICE void sync_block(Site at = here()) {
  emulator::self->block->sync({0, emulator::self->block->size(), true}, {"bar.sync", at});
}

TS_DEVICE bool any_in_block(bool value, Site at = here()) {
  emulator::self->block->sync({0, emulator::self->block->size(), true, value}, {"bar.red.or", at});
  return emulator::self->warp->vote;
}

TS_DEVICE void fence_device() { emulator::self->block->fence(); }

}  // namespace tessera::device::isa
