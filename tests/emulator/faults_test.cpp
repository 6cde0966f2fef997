// Each kind of fault that the emulator knows, planted in a kernel that is right without it.
#include <isa/atomic.cuh>
#include <isa/copy.cuh>
#include <isa/math.cuh>
#include <isa/memory.cuh>
#include <isa/mma.cuh>

#include <vector>

#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::Address;
using device::Float16;
using device::u32;
using device::Vector4;

Address shared(int byte) { return Address(u32(isa::shared_base()) + u32(byte)); }

constexpr emulator::Launch kTwoWarps{.threads = 64, .shared_bytes = 1024};

TEST(Faults, a_load_in_a_race_with_a_store_of_another_warp) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              isa::role("reader");
              if (isa::warp() == 0) isa::role("writer");
              if (isa::warp() == 0) isa::store(shared(4 * isa::lane()), 7u);
              if (!planted) isa::sync_block();
              if (isa::warp() == 1) isa::load_word(shared(4 * isa::lane()));
            }}
      .expect(
          "ld.shared at faults_test.cpp:[0-9]+ \\(reader .*race with the store of writer|"
          "ld.shared.*nobody has written|st.shared.*race with the load of reader");
}

TEST(Faults, a_store_in_a_race_with_a_load_of_another_warp) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              if (isa::warp() == 0) isa::store(shared(4 * isa::lane()), 7u);
              isa::sync_block();
              if (isa::warp() == 1) isa::load_word(shared(4 * isa::lane()));
              if (!planted) isa::sync_block();
              if (isa::warp() == 0) isa::store(shared(4 * isa::lane()), 8u);
            }}
      .expect("st.shared.*race with the load|ld.shared.*race with the store");
}

TEST(Faults, lanes_of_a_warp_are_in_order_only_after_sync_warp) {
  Probe{.launch = {.shared_bytes = 256},
        .kernel =
            [](bool planted) {
              isa::store(shared(4 * isa::lane()), u32(isa::lane()));
              if (!planted) isa::sync_warp();
              isa::shuffle(1.f, 0);  // a meeting, but no order
              EXPECT_EQ(isa::load_word(shared(4 * (isa::lane() ^ 1))), u32(isa::lane() ^ 1));
            }}
      .expect("ld.shared.*race with the store");
}

TEST(Faults, neighbouring_stores_of_two_bytes_or_words_are_no_race) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              const int word = isa::warp() + (planted ? 0 : 2 * isa::lane());
              isa::store(shared(4 * word), 1u);
            }}
      .expect("st.shared.*race with the store");
}

TEST(Faults, a_byte_that_nobody_has_written) {
  Probe{.launch = {.shared_bytes = 1024},
        .kernel =
            [](bool planted) {
              if (isa::lane() < (planted ? 31 : 32))
                isa::store(shared(16 * isa::lane()), Vector4{});
              isa::sync_warp();
              isa::load(shared(16 * (31 - isa::lane())));
            }}
      .expect("ld.shared.*reads shared memory at byte 496, which nobody has written");
}

TEST(Faults, a_register_that_nobody_has_assigned) {
  Probe{.launch = {},
        .kernel =
            [](bool planted) {
              isa::Registers<float, 4> d;
              isa::Registers<u32, 4> a;
              for (int i = 0; i < 4; ++i) a[i] = 0;
              for (int i = 0; i < (planted ? 3 : 4); ++i) d[i] = 0;
              d[3] = d[3] * 2 + 1;  // what is computed from it is undefined too
              isa::mma<Float16>(d.value, a.value, a.value);
            }}
      .expect("mma.sync at .*: uses a register that nobody has assigned");
}

TEST(Faults, shared_memory_out_of_bounds) {
  Probe{.launch = {.shared_bytes = 512},
        .kernel =
            [](bool planted) {
              isa::store(shared(16 * (isa::lane() + (planted ? 1 : 0))), Vector4{});
            }}
      .expect("st.shared.*touches shared memory at byte 512, which is out of bounds");
}

TEST(Faults, an_address_that_is_not_aligned) {
  Probe{
      .launch = {.shared_bytes = 1024},
      .kernel =
          [](bool planted) { isa::store(shared(16 * isa::lane() + (planted ? 8 : 0)), Vector4{}); }}
      .expect("st.shared.*not a multiple of 16");
}

// ---- Copies ----

struct CopyProbe {
  std::vector<u32> source = std::vector<u32>(256, 5);

  void expect(const std::function<void(bool, const u32*)>& kernel, const std::string& report) {
    Probe{.launch = kTwoWarps,
          .memory =
              [this] {
                emulator::GlobalMemory m;
                m.input("source", source.data(), 4 * source.size());
                return m;
              },
          .kernel = [&](bool planted) { kernel(planted, source.data()); }}
        .expect(report);
  }
};

void copy_one(const u32* source, u32 bytes = 16) {
  isa::copy_async(shared(16 * isa::thread()), source + 4 * isa::thread(), bytes);
}

TEST(Faults, a_copy_that_was_not_waited_for) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        copy_one(source);
        isa::copy_commit();
        if (!planted || isa::warp() == 0) isa::copy_wait<0>();
        isa::sync_block();
        EXPECT_EQ(isa::load_word(shared(16 * (63 - isa::thread()))), 5u);
        isa::copy_wait<0>();
      },
      "ld.shared.*cp.async of thread [0-9]+ at line [0-9]+ may be writing it|"
      "ld.shared.*race with the store");
}

TEST(Faults, a_wait_that_leaves_a_group_too_many) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        copy_one(source);
        isa::copy_commit();
        isa::copy_commit();  // an empty group counts
        if (planted) isa::copy_wait<2>();
        if (!planted) isa::copy_wait<1>();
        EXPECT_EQ(isa::load_word(shared(16 * isa::thread())), 5u);
        isa::copy_wait<0>();
      },
      "cp.async of thread [0-9]+ at line [0-9]+ may be writing it");
}

TEST(Faults, a_copy_that_was_waited_for_but_without_a_barrier) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        copy_one(source);
        isa::copy_commit();
        isa::copy_wait<0>();
        if (!planted) isa::sync_block();
        isa::load_word(shared(16 * (isa::thread() ^ 32)));
      },
      "race with the store|may be writing it|nobody has written|race with the load");
}

TEST(Faults, a_copy_over_what_others_still_read) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        copy_one(source);
        isa::copy_commit();
        isa::copy_wait<0>();
        isa::sync_block();
        isa::load_word(shared(16 * (isa::thread() ^ 32)));
        if (!planted) isa::sync_block();
        copy_one(source, 0);
        isa::copy_commit();
        isa::copy_wait<0>();
      },
      "cp.async.*race with the load|ld.shared.*(race with the store|may be writing it)");
}

TEST(Faults, a_thread_that_ends_before_its_copy) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        copy_one(source);
        isa::copy_commit();
        if (!planted) isa::copy_wait<0>();
      },
      "ends without waiting for its cp.async");
}

TEST(Faults, a_copy_from_beyond_the_end) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        copy_one(source + (planted ? 4 : 0));
        isa::copy_commit();
        isa::copy_wait<0>();
      },
      "cp.async.*out of bounds");
}

TEST(Copies, zero_fill_what_they_do_not_copy) {
  CopyProbe().expect(
      [](bool planted, const u32* source) {
        isa::copy_async(shared(16 * isa::thread()), source + 4 * isa::thread(), 4);
        isa::copy_commit();
        isa::copy_wait<0>();
        const Vector4 v = isa::load(shared(16 * isa::thread()));
        EXPECT_EQ(v.x, 5u);
        EXPECT_EQ(v.y | v.z | v.w, 0u);
        if (planted) isa::copy_async(shared(16 * isa::thread()), source, 17);
      },
      "copies more than 16 bytes");
}

// ---- Meetings ----

TEST(Faults, a_warp_that_has_diverged) {
  Probe{.launch = {},
        .kernel =
            [](bool planted) {
              if (!planted || isa::lane() < 16) isa::shuffle_xor(1.f, 1);
              if (planted && isa::lane() >= 16) isa::any(true);
            }}
      .expect("the warp has diverged: other lanes say");
}

TEST(Faults, a_meeting_that_some_lanes_never_reach) {
  Probe{.launch = {},
        .kernel =
            [](bool planted) {
              if (!planted || isa::lane() != 3) isa::any(true);
            }}
      .expect("deadlock(.|\n)*vote.sync.any(.|\n)*31 of 32 lanes|says it alone");
}

TEST(Faults, a_barrier_that_a_warp_never_reaches) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              isa::role(isa::warp() == 0 ? "first" : "second");
              if (!planted || isa::warp() == 0) isa::sync_block();
            }}
      .expect(
          "deadlock(.|\n)*first waits in bar.sync at faults_test.cpp:[0-9]+: "
          "barrier 0 has 32 of 64");
}

TEST(Faults, two_barriers_taken_in_opposite_orders) {
  Probe{.launch = kTwoWarps,
        .kernel =
            [](bool planted) {
              const int first = planted && isa::warp() == 1 ? 2 : 1;
              isa::barrier_sync(first, 64);
              isa::barrier_sync(3 - first, 64);
            }}
      .expect("deadlock(.|\n)*barrier 1 has 32(.|\n)*barrier 2 has 32");
}

TEST(Faults, a_barrier_of_another_number_of_threads) {
  Probe{.launch = {.threads = 96},
        .kernel = [](bool planted) { isa::barrier_sync(1, planted && isa::warp() == 2 ? 64 : 96); }}
      .expect("threads expected, but others expect|deadlock");
}

// ---- Several blocks and global memory ----

struct GlobalProbe {
  std::vector<u32> data = std::vector<u32>(64);
  emulator::Launch launch{.grid = {4, 1, 1}};

  void expect(const std::function<void(bool, u32*)>& kernel, const std::string& report) {
    Probe{.launch = launch,
          .memory =
              [this] {
                data.assign(64, 0);
                emulator::GlobalMemory m;
                m.output("data", data.data(), 4 * data.size(), true);
                return m;
              },
          .kernel = [&](bool planted) { kernel(planted, data.data()); }}
        .expect(report);
  }
};

TEST(Faults, two_blocks_that_write_one_place) {
  GlobalProbe().expect(
      [](bool planted, u32* data) {
        if (isa::lane() == 0) isa::store(data + (planted ? 0 : isa::block().x), 1u);
      },
      "st.global.*data.*race with the store");
}

TEST(Faults, an_address_beyond_a_tensor) {
  GlobalProbe().expect(
      [](bool planted, u32* data) {
        const int block = isa::block().x;
        if (isa::lane() < 16) isa::store(data + 16 * block + isa::lane() + (planted ? 1 : 0), 1u);
      },
      "st.global.*(out of bounds|race)");
}

TEST(Faults, atomics_beside_ordinary_stores) {
  GlobalProbe().expect(
      [](bool planted, u32* data) {
        if (isa::lane() != 0) return;
        if (planted && isa::block().x == 1) isa::store(data, 3u);
        if (!planted || isa::block().x != 1) isa::atomic_add(data, 1u);
      },
      "data.*race with the store");
}

// Each block leaves a value and takes a ticket; the last one reads them all.
void last_block_sums(bool fence_before, bool fence_after, u32* data) {
  isa::store(data + isa::block().x * 4 + 4, u32(1 + isa::block().x));
  if (fence_before) isa::fence_device();
  const u32 ticket = isa::atomic_add(data, 1u);
  if (ticket != 3) return;
  if (fence_after) isa::fence_device();
  u32 sum = 0;
  for (int i = 0; i < 4; ++i) sum += isa::load(data + 4 * i + 4);
  EXPECT_EQ(sum, 10u);
}

TEST(Faults, a_fence_missing_before_the_ticket) {
  GlobalProbe().expect(
      [](bool planted, u32* data) {
        if (isa::lane() == 0) last_block_sums(!planted, true, data);
      },
      "ld.global.*data.*race with the store");
}

TEST(Faults, a_fence_missing_after_the_ticket) {
  GlobalProbe().expect(
      [](bool planted, u32* data) {
        if (isa::lane() == 0) last_block_sums(true, !planted, data);
      },
      "ld.global.*data.*race with the store");
}

TEST(Faults, a_store_into_an_input) {
  std::vector<u32> data(4);
  Probe{.launch = {},
        .memory =
            [&] {
              emulator::GlobalMemory m;
              m.input("constant", data.data(), 16);
              return m;
            },
        .kernel =
            [&](bool planted) {
              if (planted) isa::store(data.data(), 1u);
            }}
      .expect("st.global.*writes constant, which is an input");
}

}  // namespace
}  // namespace tessera::test
