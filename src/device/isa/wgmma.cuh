// The tensor core of sm_90a, a warpgroup at a time: 64 x n sums of 16 products each, which run on
// their own time. PTX world.
//
// Element 4j + 2h + e of a lane's sums is row 16 warp + lane / 4 + 8h and column
// 8j + 2 (lane % 4) + e. Registers 4i to 4i + 3 of A hold what mma.m16n8k16 takes of columns 16i
// to 16i + 15 (PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma).
#pragma once
#include <isa/thread.cuh>
#include <isa/wgmma_forms.cuh>

namespace tessera::device::isa {

// PTX ISA, "Matrix Descriptor Format" of wgmma: bits 0-13 start >> 4, 16-29 leading dimension byte
// offset >> 4, 32-45 stride dimension byte offset >> 4, 49-51 base offset, 62-63 swizzle.
TS_DEVICE u64 matrix(Address start, u32 leading, u32 stride, Swizzle swizzle) {
  return u64((u32(start) & 0x3ffff) >> 4) | u64(leading >> 4) << 16 | u64(stride >> 4) << 32 |
         u64(swizzle) << 62;
}
// The same matrix so many bytes further.
TS_DEVICE u64 advance(u64 descriptor, u32 bytes) { return descriptor + (bytes >> 4); }

// An empty instruction for each register: the compiler moves no access over it.
template <int n> TS_DEVICE void tie(Registers<float, n>& r) {
  TS_UNROLL for (int i = 0; i < n; ++i) asm volatile("" : "+f"(r.value[i])::"memory");
}
template <int n> TS_DEVICE void tie(Registers<u32, n>& r) {
  TS_UNROLL for (int i = 0; i < n; ++i) asm volatile("" : "+r"(r.value[i])::"memory");
}

// PTX ISA, "wgmma.fence": the registers that the next wgmma reads or adds to are in place.
template <int n> TS_DEVICE void wgmma_fence(Registers<float, n>& d) {
  tie(d);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int n, int m> TS_DEVICE void wgmma_fence(Registers<float, n>& d, Registers<u32, m>& a) {
  tie(a);
  wgmma_fence(d);
}

// PTX ISA, "wgmma.mma_async": D = A B, or D += A B. B and A lie in shared memory, by descriptor
// ("Matrix Descriptor Format"), and are read by the async proxy.
template <class T, Major a_major, Major b_major, int n>
TS_DEVICE void wgmma(Registers<float, n>& d, u64 a, u64 b, bool accumulate) {
  wgmma_form<T, int(a_major), int(b_major)>(d.value, a, b, accumulate);
}
// A is in registers: four of them for each 16 columns.
template <int m> struct StepOf {
  Registers<u32, m>& a;
  int step;
};
template <int m> TS_DEVICE StepOf<m> step_of(Registers<u32, m>& a, int step) { return {a, step}; }
template <class T, Major b_major, int n, int m>
TS_DEVICE void wgmma(Registers<float, n>& d, StepOf<m> a, u64 b, bool accumulate) {
  wgmma_form<T, int(b_major)>(d.value, a.a.value + 4 * a.step, b, accumulate);
}

// PTX ISA, "wgmma.commit_group": what was issued since the last commit forms a group.
template <int n> TS_DEVICE void wgmma_commit(Registers<float, n>& d) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  tie(d);
}
// PTX ISA, "wgmma.wait_group": all but the last `pending` groups are done; `d` may be touched.
template <int pending, int n> TS_DEVICE void wgmma_wait(Registers<float, n>& d) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  tie(d);
}

}  // namespace tessera::device::isa
