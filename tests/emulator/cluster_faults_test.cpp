// Faults around registers that change hands and clusters, planted in kernels that are right without
// them.
#include <isa/cluster.cuh>
#include <isa/mbarrier.cuh>
#include <isa/memory.cuh>
#include <isa/warpgroup.cuh>

#include "emulated/kernels.hpp"
#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::u32;

constexpr u32 kFull = 8064, kEmpty = 8072;  // where mbarriers lie

void make_barriers(int arrivals = 1) {
  if (isa::thread() == 0) {
    isa::mbarrier_init(shared(kFull), 1, "full");
    isa::mbarrier_init(shared(kEmpty), arrivals, "empty");
    isa::mbarrier_init_fence();
  }
  isa::sync_block();
}

TEST(ClusterFaults, more_registers_than_there_are) {
  Probe{.launch = {.threads = 384},
        .kernel =
            [](bool planted) {
              if (isa::warpgroup() == 0) isa::registers_give<24>();
              if (isa::warpgroup() != 0 && planted) isa::registers_take<248>();
              if (isa::warpgroup() != 0 && !planted) isa::registers_take<240>();
            }}
      .expect("deadlock(.|\n)*setmaxnreg.inc(.|\n)*the block's pool has");
}

TEST(ClusterFaults, registers_given_that_nobody_has) {
  Probe{.launch = {.threads = 384},
        .kernel =
            [](bool planted) {
              if (planted) isa::registers_give<240>();
              if (!planted) isa::registers_give<160>();
            }}
      .expect("setmaxnreg.dec.*asks for 240 registers a thread, but has 168");
}

TEST(ClusterFaults, an_election_in_a_branch) {
  Probe{.launch = {},
        .kernel =
            [](bool planted) {
              if (!planted || isa::lane() < 5) isa::elect();
            }}
      .expect("deadlock(.|\n)*elect.sync(.|\n)*5 of 32 lanes have come|says it alone");
}

constexpr emulator::Launch kCluster{
    .grid = {4, 1, 1}, .threads = 64, .shared_bytes = 8192, .cluster = 2};

void meet_cluster() {
  isa::cluster_arrive();
  isa::cluster_wait();
}

void read_neighbour() {
  isa::load_remote(isa::map_shared(shared(4 * u32(isa::thread())), isa::cluster_rank() ^ 1));
}

TEST(ClusterFaults, a_neighbour_that_has_not_written_yet) {
  Probe{.launch = kCluster,
        .kernel =
            [](bool planted) {
              isa::store(shared(4 * u32(isa::thread())), 1u);
              if (!planted) meet_cluster();
              read_neighbour();
              meet_cluster();
            }}
      .expect(
          "ld.shared::cluster.*(race with the store|nobody has written)|"
          "st.shared.*race with the load");
}

TEST(ClusterFaults, a_neighbour_that_has_ended) {
  Probe{.launch = kCluster,
        .kernel =
            [](bool planted) {
              isa::store(shared(4 * u32(isa::thread())), 1u);
              meet_cluster();
              read_neighbour();
              if (!planted) meet_cluster();
            }}
      .expect(
          "touches shared memory of rank [01], which has ended|the block ends although the "
          "ld.shared::cluster of .* may still come: a barrier of the cluster is missing");
}

TEST(ClusterFaults, a_cluster_barrier_that_a_warp_never_reaches) {
  Probe{.launch = kCluster,
        .kernel =
            [](bool planted) {
              make_barriers();
              if (planted && isa::cluster_rank() == 1 && isa::warp() == 1)
                isa::mbarrier_wait(shared(kFull), 0);
              meet_cluster();
            }}
      .expect("deadlock(.|\n)*barrier.cluster.wait(.|\n)*the cluster's barrier lacks 1 warps");
}

TEST(ClusterFaults, a_wait_at_the_cluster_barrier_without_an_arrival) {
  Probe{.launch = kCluster,
        .kernel =
            [](bool planted) {
              if (!planted) isa::cluster_arrive();
              isa::cluster_wait();
            }}
      .expect("barrier.cluster.wait.*waits without having arrived");
}

TEST(ClusterFaults, a_remote_arrival_before_the_init_is_known) {
  Probe{.launch = kCluster,
        .kernel =
            [](bool planted) {
              if (isa::thread() == 0) isa::mbarrier_init(shared(kFull), 64, "full");
              if (isa::thread() == 0 && !planted) isa::mbarrier_init_fence();
              meet_cluster();
              isa::mbarrier_arrive_remote(isa::map_shared(shared(kFull), isa::cluster_rank() ^ 1));
              isa::mbarrier_wait_cluster(shared(kFull), 0);
            }}
      .expect("mbarrier.arrive.*fence.mbarrier_init is missing");
}

TEST(ClusterFaults, a_rank_that_the_cluster_does_not_have) {
  Probe{.launch = kCluster,
        .kernel = [](bool planted) { isa::map_shared(shared(0), planted ? 2 : 1); }}
      .expect("mapa.*there is no rank 2 in a cluster of 2 blocks");
}

}  // namespace
}  // namespace tessera::test
