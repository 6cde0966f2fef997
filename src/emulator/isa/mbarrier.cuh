// Barriers in shared memory that count arrivals and the bytes of copies, phase after phase.
// Software world.
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE void mbarrier_init(Address barrier, int arrivals, const char* label, Site at = here()) {
  emulator::self->block->mbarriers.init(u32(barrier), arrivals, label, {"mbarrier.init", at});
}
TS_DEVICE void mbarrier_init_fence() { emulator::self->block->mbarriers.init_fence(); }
TS_DEVICE void mbarrier_arrive(Address barrier, Site at = here()) {
  emulator::self->block->mbarriers.arrive(u32(barrier), 0, {"mbarrier.arrive", at});
}
TS_DEVICE void mbarrier_arrive_expect(Address barrier, u32 bytes, Site at = here()) {
  emulator::self->block->mbarriers.arrive(u32(barrier), bytes, {"mbarrier.arrive.expect_tx", at});
}
TS_DEVICE bool mbarrier_test(Address barrier, u32 parity, Site at = here()) {
  return emulator::self->block->mbarriers.test(u32(barrier), parity, {"mbarrier.test_wait", at});
}
TS_DEVICE void mbarrier_wait(Address barrier, u32 parity, Site at = here()) {
  emulator::self->block->mbarriers.wait(u32(barrier), parity, {"mbarrier.try_wait", at});
}

}  // namespace tessera::device::isa
