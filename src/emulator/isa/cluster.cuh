// Words of a cluster: blocks that are resident together and reach each other's shared memory.
// Software world.
#pragma once
#include <isa/tensor_copy.cuh>
#include <isa/thread.cuh>

namespace tessera::device::isa {

TS_DEVICE int cluster_rank() {
  const int x = emulator::self->block->at().x;
  return x % emulator::self->block->grid().launch().cluster;
}
TS_DEVICE int cluster_size() { return emulator::self->block->grid().launch().cluster; }

TS_DEVICE void cluster_arrive(Site at = here()) {
  emulator::self->block->cluster->arrive({"barrier.cluster.arrive", at});
}
TS_DEVICE void cluster_wait(Site at = here()) {
  emulator::self->block->cluster->wait({"barrier.cluster.wait", at});
}

TS_DEVICE Address map_shared(Address mine, int rank, Site at = here()) {
  return Address(emulator::self->block->remote_address(u32(mine), rank, {"mapa", at}));
}
TS_DEVICE u32 load_remote(Address from, Site at = here()) {
  const emulator::Where where{"ld.shared::cluster", at};
  const auto place = emulator::self->block->locate(u32(from), where);
  u32 value;
  place.block.read(place.address, &value, 4, where);
  return value;
}
TS_DEVICE void store_remote(Address to, u32 value, Site at = here()) {
  const emulator::Where where{"st.shared::cluster", at};
  emulator::use(value, where);
  const auto place = emulator::self->block->locate(u32(to), where);
  place.block.write(place.address, &value, 4, where);
}
TS_DEVICE void mbarrier_arrive_remote(Address barrier, Site at = here()) {
  const emulator::Where where{"mbarrier.arrive.shared::cluster", at};
  const auto place = emulator::self->block->locate(u32(barrier), where);
  place.block.mbarriers.arrive(place.address, 0, where);
}
TS_DEVICE void mbarrier_wait_cluster(Address barrier, u32 parity, Site at = here()) {
  emulator::self->block->mbarriers.wait(u32(barrier), parity, {"mbarrier.try_wait", at});
}

struct Destinations {
  Address tile, barrier;
  u16 ranks;
};
TS_DEVICE void tensor_multicast(Destinations to, const TensorMap& map, Coordinates<4> c,
                                Site at = here()) {
  emulator::self->block->engine.multicast(tile_call(map, to.tile, c), u32(to.barrier), to.ranks,
                                          {"cp.async.bulk.tensor (multicast)", at});
}

}  // namespace tessera::device::isa
