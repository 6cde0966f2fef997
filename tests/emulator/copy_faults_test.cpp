// Each kind of fault around mbarriers and the copy engine, planted in a kernel that is right
// without it.
#include <isa/mbarrier.cuh>
#include <isa/memory.cuh>
#include <isa/tensor_copy.cuh>
#include <isa/wgmma.cuh>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "emulated/kernels.hpp"
#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::Bfloat16;
using device::Coordinates;
using device::Major;
using device::Swizzle;
using device::TensorMap;
using device::u16;
using device::u32;
using device::u64;
using device::Vector4;

constexpr emulator::Launch kTwoWarps{.threads = 64, .shared_bytes = 8192};
constexpr emulator::Launch kWarpgroup{.threads = 128, .shared_bytes = 8192};

using WithMap = std::function<void(bool planted, const TensorMap&)>;

// 64 rows of 64 elements, or of fewer that count; tiles of 16 rows, 2048 bytes.
struct Tiles {
  static constexpr u32 kBytes = 2048;
  static constexpr u32 kFull = 8064, kEmpty = 8072;  // where mbarriers lie
  std::vector<u16> data = std::vector<u16>(64 * 64, 0x3f80);
  TensorMap map = mapped({64, 64}, Swizzle::k128B);

  TensorMap mapped(std::array<u64, 2> extent, Swizzle swizzle = Swizzle::kNone) {
    return emulator::encode({.base = data.data(),
                             .rank = 2,
                             .extent = {extent[0], extent[1]},
                             .stride = {2, 128},
                             .box = {64, 16},
                             .swizzle = swizzle});
  }

  void expect(const emulator::Launch& launch, const WithMap& kernel, const std::string& report) {
    Probe{.launch = launch,
          .memory =
              [this] {
                emulator::GlobalMemory m;
                m.output("tensor", data.data(), 2 * data.size(), true);
                return m;
              },
          .kernel = [&](bool planted) { kernel(planted, map); }}
        .expect(report);
  }
};

void make_barriers(int arrivals = 1) {
  if (isa::thread() == 0) {
    isa::mbarrier_init(shared(Tiles::kFull), 1, "full");
    isa::mbarrier_init(shared(Tiles::kEmpty), arrivals, "empty");
    isa::mbarrier_init_fence();
  }
  isa::sync_block();
}

void load_tile(const TensorMap& map, u32 to = 0, u32 announced = Tiles::kBytes) {
  isa::mbarrier_arrive_expect(shared(Tiles::kFull), announced);
  isa::tensor_load(shared(to), map, shared(Tiles::kFull), Coordinates{0, 16});
}

// ---- mbarriers and tensor loads ----

TEST(CopyFaults, a_tile_that_was_not_waited_for) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        isa::role(isa::warp() == 0 ? "producer" : "consumer");
        make_barriers();
        if (isa::thread() == 0) load_tile(map);
        if (!planted || isa::warp() == 0) isa::mbarrier_wait(shared(Tiles::kFull), 0);
        if (isa::warp() == 1) isa::load_word(shared(4 * u32(isa::lane())));
      },
      "ld.shared at copy_faults_test.cpp:[0-9]+ \\(consumer .*while a copy for mbarrier .full. .*"
      "may still write it|ld.shared.*nobody has written|load.*race with the load of consumer|"
      "load.*fence.proxy.async is missing after the load of consumer");
}

TEST(CopyFaults, a_wait_for_the_wrong_parity) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) load_tile(map);
        isa::mbarrier_wait(shared(Tiles::kFull), planted ? 1 : 0);
        isa::load_word(shared(4 * u32(isa::lane())));
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "may still write it|nobody has written|fence.proxy.async is missing|race with the load");
}

TEST(CopyFaults, fewer_bytes_announced_than_come) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) load_tile(map, 0, planted ? 1024 : 2048);
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "deadlock(.|\n)*mbarrier.try_wait(.|\n)*mbarrier .full.*lacks 0 of 1 arrivals and -1024 "
      "bytes|"
      "deadlock(.|\n)*phase 0 lacks");
}

TEST(CopyFaults, more_bytes_announced_than_come) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) load_tile(map, 0, planted ? 4096 : 2048);
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "deadlock(.|\n)*phase 0 lacks 0 of 1 arrivals and 2048 bytes");
}

TEST(CopyFaults, an_arrival_too_many) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              make_barriers(32);
              if (isa::warp() == 1 || (planted && isa::lane() == 7))
                isa::mbarrier_arrive(shared(Tiles::kEmpty));
              if (!planted) isa::mbarrier_wait(shared(Tiles::kEmpty), 0);
              // With one too many the last of them begins a phase that lacks 31.
              if (planted) isa::mbarrier_wait(shared(Tiles::kEmpty), 1);
            }}
      .expect("deadlock(.|\n)*mbarrier .empty.*phase 1 lacks 31 of 32 arrivals");
}

TEST(CopyFaults, an_arrival_while_the_phase_waits_for_bytes) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) {
          isa::mbarrier_arrive_expect(shared(Tiles::kFull), Tiles::kBytes);
          if (planted) isa::mbarrier_arrive(shared(Tiles::kFull));
          isa::tensor_load(shared(0), map, shared(Tiles::kFull), Coordinates{0, 0});
        }
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "mbarrier.arrive .*all 1 arrivals of phase 0 have come already");
}

TEST(CopyFaults, an_arrival_that_never_comes) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              isa::role(isa::warp() == 0 ? "producer" : "consumer");
              make_barriers(planted ? 33 : 32);
              if (isa::warp() == 1) isa::mbarrier_arrive(shared(Tiles::kEmpty));
              if (isa::warp() == 0) isa::mbarrier_wait(shared(Tiles::kEmpty), 0);
            }}
      .expect(
          "deadlock(.|\n)*producer waits in mbarrier.try_wait at copy_faults_test.cpp:[0-9]+: "
          "mbarrier .empty.*phase 0 lacks 1 of 33 arrivals");
}

TEST(CopyFaults, an_mbarrier_that_others_do_not_know_of) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              if (isa::thread() == 0) isa::mbarrier_init(shared(Tiles::kFull), 64, "full");
              if (!planted) isa::sync_block();
              isa::mbarrier_arrive(shared(Tiles::kFull));
            }}
      .expect("mbarrier.arrive.*(nothing orders its init before this|no mbarrier was initialised)");
}

TEST(CopyFaults, an_mbarrier_that_the_copy_engine_does_not_know_of) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        if (isa::thread() == 0) {
          isa::mbarrier_init(shared(Tiles::kFull), 1, "full");
          if (!planted) isa::mbarrier_init_fence();
          load_tile(map);
        }
        isa::sync_block();
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "load.*fence.mbarrier_init is missing");
}

TEST(CopyFaults, a_store_over_an_mbarrier) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              make_barriers();
              if (isa::thread() == 0)
                isa::store(shared(Tiles::kFull - (planted ? 0 : 16)), Vector4{});
            }}
      .expect("st.shared.*, where an mbarrier lives");
}

TEST(CopyFaults, a_stage_that_is_filled_again_while_others_read_it) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers(32);
        for (u32 step = 0; step < 2; ++step) {
          if (isa::thread() == 0) {
            if (!planted) isa::mbarrier_wait(shared(Tiles::kEmpty), (step & 1) ^ 1);
            if (planted && step == 1) isa::mbarrier_wait(shared(Tiles::kFull), 0);
            load_tile(map);
          }
          if (isa::warp() == 0) continue;
          isa::mbarrier_wait(shared(Tiles::kFull), step);
          isa::load_word(shared(4 * u32(isa::lane())));
          isa::fence_async();
          isa::mbarrier_arrive(shared(Tiles::kEmpty));
        }
      },
      "load.*race with the load|may still write it");
}

TEST(CopyFaults, a_load_after_which_the_proxy_fence_is_missing) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        isa::store(shared(4 * u32(isa::thread())), 1u);
        if (!planted) isa::fence_async();
        isa::sync_block();
        if (isa::thread() == 0) load_tile(map);
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "load.*fence.proxy.async is missing after the store of thread");
}

TEST(CopyFaults, a_block_that_ends_before_its_tile) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) load_tile(map);
        if (!planted) isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "the block ends although nobody has waited for the copies of phase 0 of mbarrier .full.");
}

TEST(CopyFaults, a_tile_that_does_not_fit_into_shared_memory) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) load_tile(map, planted ? 7168 : 5120);
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "load.*(out of bounds|where an mbarrier lives)");
}

TEST(CopyFaults, a_tile_at_an_odd_place) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) load_tile(map, planted ? 64 : 128);
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "load.*the shared address is not a multiple of 128");
}

TEST(CopyFaults, a_tile_from_an_odd_column) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) {
          isa::mbarrier_arrive_expect(shared(Tiles::kFull), Tiles::kBytes);
          isa::tensor_load(shared(0), map, shared(Tiles::kFull), Coordinates{planted ? 4 : 8, 0});
        }
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "load.*the innermost coordinate is not a multiple of 16 bytes");
}

TEST(CopyFaults, coordinates_of_another_rank) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) {
          isa::mbarrier_arrive_expect(shared(Tiles::kFull), Tiles::kBytes);
          if (planted)
            isa::tensor_load(shared(0), map, shared(Tiles::kFull), Coordinates{0, 0, 0});
          else
            isa::tensor_load(shared(0), map, shared(Tiles::kFull), Coordinates{0, 0});
        }
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
      },
      "load.*3 coordinates for a tensor of rank 2");
}

TEST(CopyFaults, a_map_beyond_the_tensor) {
  std::vector<u16> data(64 * 16);
  Probe{.launch = kTwoWarps,
        .memory =
            [&] {
              emulator::GlobalMemory m;
              m.input("tensor", data.data(), 2 * data.size());
              return m;
            },
        .kernel =
            [&](bool planted) {
              const TensorMap map = emulator::encode({.base = data.data(),
                                                      .rank = 2,
                                                      .extent = {64, u64(planted ? 17 : 16)},
                                                      .stride = {2, 128},
                                                      .box = {64, 16}});
              make_barriers();
              if (isa::thread() == 0) {
                isa::mbarrier_arrive_expect(shared(Tiles::kFull), Tiles::kBytes);
                isa::tensor_load(shared(0), map, shared(Tiles::kFull), Coordinates{0, 8});
              }
              isa::mbarrier_wait(shared(Tiles::kFull), 0);
            }}
      .expect("load.*out of bounds");
}

// ---- Tensor stores ----

void store_tile(const TensorMap& map, int row, int column = 0) {
  isa::tensor_store(map, shared(0), Coordinates{column, row});
  isa::store_commit();
}

void write_tile() {
  for (u32 i = u32(isa::thread()); i < Tiles::kBytes / 16; i += 64)
    isa::store(shared(16 * i), Vector4{1, 2, 3, 4});
}

TEST(CopyFaults, a_tensor_store_without_the_proxy_fence) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        write_tile();
        if (!planted) isa::fence_async();
        isa::sync_block();
        if (isa::thread() != 0) return;
        store_tile(map, 0);
        isa::store_wait<0>();
      },
      "store.*fence.proxy.async is missing after the store of thread");
}

TEST(CopyFaults, a_tensor_store_that_begins_before_its_tensor) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        write_tile();
        isa::fence_async();
        isa::sync_block();
        if (isa::thread() != 0) return;
        store_tile(map, 0, planted ? -8 : 0);
        isa::store_wait<0>();
      },
      "store.*begins before its tensor");
}

TEST(CopyFaults, a_tensor_store_that_is_cut_off_within_16_bytes) {
  Tiles tiles;
  tiles.expect(
      kTwoWarps,
      [&](bool planted, const TensorMap&) {
        const TensorMap map = tiles.mapped({planted ? 63u : 56u, 16});
        write_tile();
        isa::fence_async();
        isa::sync_block();
        if (isa::thread() != 0) return;
        store_tile(map, 0);
        isa::store_wait<0>();
      },
      "store.*is cut off at rows of 126 bytes, no multiple of 16");
}

TEST(CopyFaults, a_tensor_store_without_a_barrier) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        write_tile();
        isa::fence_async();
        if (!planted) isa::sync_block();
        if (isa::thread() != 0) return;
        store_tile(map, 0);
        isa::store_wait<0>();
      },
      "store.*(race with the store|nobody has written)|st.shared.*may still read it");
}

TEST(CopyFaults, a_tensor_store_whose_source_is_overwritten) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        write_tile();
        isa::fence_async();
        isa::sync_block();
        if (isa::thread() == 0) {
          store_tile(map, 0);
          if (!planted) isa::store_wait_read<0>();
          isa::store(shared(0), 5u);
          isa::store_wait_read<0>();
        }
      },
      "st.shared.*while the tensor store of thread 0 at line [0-9]+ may still read it");
}

TEST(CopyFaults, a_tensor_store_that_was_not_committed) {
  Tiles().expect(
      kTwoWarps,
      [](bool planted, const TensorMap& map) {
        write_tile();
        isa::fence_async();
        isa::sync_block();
        if (isa::thread() != 0) return;
        isa::tensor_store(map, shared(0), Coordinates{0, 0});
        if (!planted) isa::store_commit();
        isa::store_wait<0>();
      },
      "ends while its tensor store may still read shared memory");
}

TEST(CopyFaults, a_result_that_is_read_before_it_is_written) {
  Tiles tiles;
  tiles.expect(
      kTwoWarps,
      [&](bool planted, const TensorMap& map) {
        write_tile();
        isa::fence_async();
        isa::sync_block();
        if (isa::thread() != 0) return;
        store_tile(map, 0);
        if (planted) isa::store_wait_read<0>();
        if (!planted) isa::store_wait<0>();
        isa::load(tiles.data.data());
      },
      "ld.global.*while the tensor store of thread 0 .*may still write it");
}

TEST(CopyFaults, a_swizzle_that_is_not_that_of_the_copy) {
  Tiles().expect(
      kWarpgroup,
      [](bool planted, const TensorMap& map) {
        make_barriers();
        if (isa::thread() == 0) {
          isa::mbarrier_arrive_expect(shared(Tiles::kFull), 4 * Tiles::kBytes - 2048);
          for (int i = 0; i < 3; ++i)
            isa::tensor_load(shared(u32(i) * 2048), map, shared(Tiles::kFull),
                             Coordinates{0, 16 * i});
        }
        isa::mbarrier_wait(shared(Tiles::kFull), 0);
        isa::Registers<u32, 4> a;
        for (int r = 0; r < 4; ++r) a[r] = 0;
        const Swizzle mode = planted ? Swizzle::k64B : Swizzle::k128B;
        isa::Registers<float, 32> sums;
        isa::wgmma_fence(sums, a);
        isa::wgmma<Bfloat16, Major::kMN>(sums, isa::step_of(a, 0),
                                         isa::matrix(shared(0), 1024, 1024, mode), false);
        isa::wgmma_commit(sums);
        isa::wgmma_wait<0>(sums);
      },
      "wgmma.mma_async.*with swizzle mode 2, but the copy engine wrote it with mode 1");
}

}  // namespace
}  // namespace tessera::test
