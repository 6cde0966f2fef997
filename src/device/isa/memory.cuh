// Ordinary accesses to shared and global memory. PTX world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// The dynamic shared memory of the block, 1024-byte aligned.
TS_DEVICE Address shared_base() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return Address(u32(__cvta_generic_to_shared(memory)));
}

// "st.shared", "ld.shared": 4 bytes, 8 with .v2, 16 with .v4; the address is a multiple of the
// size.
TS_DEVICE void store(Address to, u32 value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(u32(to)), "r"(value) : "memory");
}
TS_DEVICE void store(Address to, Vector4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(u32(to)), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
TS_DEVICE u32 load_word(Address from) {
  u32 value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(u32(from)) : "memory");
  return value;
}
TS_DEVICE Vector2 load_pair(Address from) {
  Vector2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(u32(from))
               : "memory");
  return v;
}
TS_DEVICE Vector4 load(Address from) {
  Vector4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(u32(from))
               : "memory");
  return v;
}

// "ld.global", "st.global": 1 to 16 bytes, the address a multiple of the size.
template <class T> TS_DEVICE T load(const T* from) { return *from; }
template <class T> TS_DEVICE void store(T* to, T value) { *to = value; }

}  // namespace tessera::device::isa
