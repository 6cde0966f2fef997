// Who am I, and what a warp or a block says together. PTX world.
#pragma once
#include "device/types.cuh"

#define TS_DEVICE __device__ __forceinline__
#define TS_OUTLINE __device__ __noinline__
#define TS_UNROLL _Pragma("unroll")
#define TS_ROLL _Pragma("unroll 1")

namespace tessera::device::isa {

// PTX ISA, "Special Registers": %tid, %laneid, %ctaid, %nctaid. Blocks are one-dimensional.
TS_DEVICE int thread() { return int(threadIdx.x); }
TS_DEVICE int lane() { return int(threadIdx.x % 32); }
TS_DEVICE int warp() { return int(threadIdx.x / 32); }
TS_DEVICE Index3 block() { return {int(blockIdx.x), int(blockIdx.y), int(blockIdx.z)}; }
TS_DEVICE Index3 grid() { return {int(gridDim.x), int(gridDim.y), int(gridDim.z)}; }

// The same number, as if it were new: what is computed from it is computed here, and needs no
// register from one use to the next.
TS_DEVICE int again(int i) {
  asm volatile("" : "+r"(i));
  return i;
}
// So too, but known to be the same for all threads: ptxas then knows that branches are, too.
TS_DEVICE Index3 block_again() {
  Index3 i;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(i.x));
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(i.y));
  asm volatile("mov.u32 %0, %%ctaid.z;" : "=r"(i.z));
  return i;
}

// Names what the calling thread does, for reports and traces; free on silicon.
TS_DEVICE void role(const char*) {}

// Registers of a thread, undefined until they are assigned.
template <class T, int n> struct Registers {
  static constexpr int size = n;
  T value[n];
  TS_DEVICE T& operator[](int i) { return value[i]; }
  TS_DEVICE T operator[](int i) const { return value[i]; }
};

// "shfl.sync.idx", "shfl.sync.bfly": the value of another lane. All 32 lanes take part,
// and memory is not ordered.
TS_DEVICE float shuffle(float value, int lane) { return __shfl_sync(~0u, value, lane); }
TS_DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(~0u, value, mask); }
TS_DEVICE u32 shuffle_xor(u32 value, int mask) { return __shfl_xor_sync(~0u, value, mask); }
// "vote.sync.any"
TS_DEVICE bool any(bool value) { return __any_sync(~0u, value); }

// "bar.warp.sync": what a lane did to memory before it, the others see after it.
TS_DEVICE void sync_warp() { __syncwarp(); }
// "bar.sync", "bar.arrive": barriers 0 to 15 among `threads` threads of whole warps; 0 is the
// block's.
TS_DEVICE void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TS_DEVICE void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TS_DEVICE void sync_block() { __syncthreads(); }
// "bar.red.or": the block's barrier, and whether any of its threads says true.
TS_DEVICE bool any_in_block(bool value) { return __syncthreads_or(value); }

// "fence.acq_rel.gpu": with an atomic after it, what this thread knows is published; with one
// before it, what another thread published there is known.
TS_DEVICE void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

}  // namespace tessera::device::isa
