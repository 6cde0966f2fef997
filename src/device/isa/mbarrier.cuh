// Barriers in shared memory that count arrivals and the bytes of copies, phase after phase. PTX
// world (sm_90).
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// PTX ISA, "mbarrier.init": phase 0 begins; each phase ends after `arrivals` and the bytes that
// were announced. 8 bytes, a multiple of 8. The label names the barrier in reports.
TS_DEVICE void mbarrier_init(Address barrier, int arrivals, const char* /*label*/) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(u32(barrier)), "r"(arrivals)
               : "memory");
}
// PTX ISA, "membar/fence", fence.mbarrier_init: the copy engine and the other blocks of the cluster
// see this thread's inits.
TS_DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// PTX ISA, "mbarrier.arrive": one arrival; what this thread did before, those who wait will know.
TS_DEVICE void mbarrier_arrive(Address barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(u32(barrier)) : "memory");
}
// "mbarrier.arrive.expect_tx": announces bytes that copies will complete in this phase; arrives.
TS_DEVICE void mbarrier_arrive_expect(Address barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(u32(barrier)),
               "r"(bytes)
               : "memory");
}
// PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": whether the phase of this parity has ended.
TS_DEVICE bool mbarrier_test(Address barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(u32(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
// Returns once it has.
TS_DEVICE void mbarrier_wait(Address barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(u32(barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace tessera::device::isa
