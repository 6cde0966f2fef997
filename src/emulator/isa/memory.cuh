// Ordinary accesses to shared and global memory. Software world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE Address shared_base() { return Address(emulator::Block::kSharedBase); }

TS_DEVICE void store(Address to, u32 value, Site at = here()) {
  emulator::use(value, {"st.shared", at});
  emulator::self->block->write(u32(to), &value, 4, {"st.shared", at});
}
TS_DEVICE void store(Address to, Vector4 v, Site at = here()) {
  for (const u32 x : {v.x, v.y, v.z, v.w}) emulator::use(x, {"st.shared", at});
  emulator::self->block->write(u32(to), &v, 16, {"st.shared", at});
}
TS_DEVICE u32 load_word(Address from, Site at = here()) {
  u32 value;
  emulator::self->block->read(u32(from), &value, 4, {"ld.shared", at});
  return value;
}
TS_DEVICE Vector2 load_pair(Address from, Site at = here()) {
  Vector2 v;
  emulator::self->block->read(u32(from), &v, 8, {"ld.shared", at});
  return v;
}
TS_DEVICE Vector4 load(Address from, Site at = here()) {
  Vector4 v;
  emulator::self->block->read(u32(from), &v, 16, {"ld.shared", at});
  return v;
}

template <class T> TS_DEVICE T load(const T* from, Site at = here()) {
  emulator::self->block->grid().read_global(from, sizeof(T), {*emulator::self, {"ld.global", at}});
  return *from;
}
template <class T> TS_DEVICE void store(T* to, T value, Site at = here()) {
  if constexpr (sizeof(T) == 4) emulator::use(value, {"st.global", at});
  emulator::self->block->grid().write_global(to, sizeof(T), {*emulator::self, {"st.global", at}});
  *to = value;
}

}  // namespace tessera::device::isa
