// Words of a cluster: blocks that are resident together and reach each other's shared memory. PTX
// world (sm_90).
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// PTX ISA, "Special Registers": %cluster_ctarank, %cluster_nctarank.
TS_DEVICE int cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return int(rank);
}
TS_DEVICE int cluster_size() {
  u32 size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return int(size);
}

// PTX ISA, "barrier.cluster": all threads of all blocks. What a thread did before it arrives, the
// others know after they have waited.
TS_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
TS_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// PTX ISA, "mapa": the same place in the shared memory of the block of this rank. Words whose name
// says `remote` take such an address.
TS_DEVICE Address map_shared(Address mine, int rank) {
  u32 theirs;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(u32(mine)), "r"(rank));
  return Address(theirs);
}
// "ld.shared::cluster", "st.shared::cluster"
TS_DEVICE u32 load_remote(Address from) {
  u32 value;
  asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(u32(from)) : "memory");
  return value;
}
TS_DEVICE void store_remote(Address to, u32 value) {
  asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(u32(to)), "r"(value) : "memory");
}
// PTX ISA, "mbarrier.arrive" with .shared::cluster.
TS_DEVICE void mbarrier_arrive_remote(Address barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(u32(barrier))
               : "memory");
}
// Waits like mbarrier_wait, and knows what threads of other blocks did before they arrived.
TS_DEVICE void mbarrier_wait_cluster(Address barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(u32(barrier)),
      "r"(parity)
      : "memory");
}

// PTX ISA, "cp.async.bulk.tensor" with .multicast::cluster: the tile goes to this place and its
// bytes to this barrier in each block whose bit is set in `ranks`.
struct Destinations {
  Address tile, barrier;
  u16 ranks;
};
TS_DEVICE void tensor_multicast(Destinations to, const TensorMap& map, Coordinates<4> c) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(u32(to.tile)),
      "l"(&map), "r"(u32(to.barrier)), "h"(to.ranks), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]),
      "r"(c.at[3])
      : "memory");
}

}  // namespace tessera::device::isa
