// Copies from global to shared memory that run beside the arithmetic (sm_80). PTX world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// "cp.async.cg.shared.global" with src-size: 16 bytes, of which the first `bytes` are copied and
// the others become 0. With bytes = 0 nothing is read. Both addresses are multiples of 16.
TS_DEVICE void copy_async(Address to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(u32(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
// All of 16 bytes.
TS_DEVICE void copy_async(Address to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(u32(to)),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
// "cp.async.commit_group": this thread's copies since the last commit form a group.
TS_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// "cp.async.wait_group": all but this thread's last `pending` groups have landed, for this thread.
template <int pending> TS_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace tessera::device::isa
