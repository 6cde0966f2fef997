// One indivisible step on global memory. Relaxed: fence_device() makes it order. PTX world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// "atom.global.add": returns what was there.
TS_DEVICE u32 atomic_add(u32* at, u32 value) { return ::atomicAdd(at, value); }
TS_DEVICE float atomic_add(float* at, float value) { return ::atomicAdd(at, value); }
// "atom.global.max"
TS_DEVICE u32 atomic_max(u32* at, u32 value) { return ::atomicMax(at, value); }
// "atom.global.exch"
TS_DEVICE u32 atomic_exchange(u32* at, u32 value) { return ::atomicExch(at, value); }

}  // namespace tessera::device::isa
