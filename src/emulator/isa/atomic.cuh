// One indivisible step on global memory; the schedule decides who comes first. Software world.
#pragma once
#include <algorithm>

#include <isa/thread.cuh>

namespace tessera::device::isa {

template <class T, class Step> T step_atomically(T* to, emulator::Where where, Step step) {
  emulator::self->block->grid().touch_atomic(to, sizeof(T), where);
  const T before = *to;
  *to = step(before);
  return before;
}

TS_DEVICE u32 atomic_add(u32* to, u32 value, Site at = here()) {
  return step_atomically(to, {"atom.add", at}, [value](u32 x) { return x + value; });
}
TS_DEVICE float atomic_add(float* to, float value, Site at = here()) {
  return step_atomically(to, {"atom.add", at}, [value](float x) { return x + value; });
}
TS_DEVICE u32 atomic_max(u32* to, u32 value, Site at = here()) {
  return step_atomically(to, {"atom.max", at}, [value](u32 x) { return std::max(x, value); });
}
TS_DEVICE u32 atomic_exchange(u32* to, u32 value, Site at = here()) {
  return step_atomically(to, {"atom.exch", at}, [value](u32) { return value; });
}

}  // namespace tessera::device::isa
