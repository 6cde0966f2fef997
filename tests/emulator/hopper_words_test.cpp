// The words of sm_90 against plain arithmetic: random tiles, swizzles, descriptors and phases.
#include <isa/cluster.cuh>
#include <isa/mbarrier.cuh>
#include <isa/memory.cuh>
#include <isa/tensor_copy.cuh>
#include <isa/warpgroup.cuh>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "core/random.hpp"
#include "emulated/kernels.hpp"
#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::Address;
using device::Coordinates;
using device::Swizzle;
using device::TensorMap;
using device::TileMap;
using device::u16;
using device::u32;
using device::u64;

std::vector<u16> numbered(std::size_t count) {
  std::vector<u16> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = u16(i + 1);
  return data;
}

// ---- Tiles ----

// [2][3][10][40] elements, the last 40 of 48; tiles of 16 x 4 x 2 x 1.
struct Tensor {
  static constexpr u32 kBox[] = {16, 4, 2, 1}, kElements = 128;
  static constexpr u32 kExtent[] = {40, 10, 3, 2};
  std::vector<u16> data = numbered(2 * 3 * 10 * 48);
  TensorMap map;

  explicit Tensor(Swizzle swizzle) {
    map = emulator::encode({.base = data.data(),
                            .rank = 4,
                            .extent = {40, 10, 3, 2},
                            .stride = {2, 96, 960, 2880},
                            .box = {16, 4, 2, 1},
                            .swizzle = swizzle});
  }
  // Element e of the tile at a corner; 0 outside.
  u16 at(const int (&corner)[4], u32 e) const {
    std::size_t place = 0, step = 1;
    for (std::size_t d = 0; d < 4; ++d) {
      const int i = corner[d] + int(e % kBox[d]);
      e /= kBox[d];
      if (i < 0 || u32(i) >= kExtent[d]) return 0;
      place += std::size_t(i) * step;
      step *= d == 0 ? 48 : kExtent[d];
    }
    return data[place];
  }
};

void load_one(const TensorMap& map, Coordinates<4> c, u32 bytes) {
  const Address barrier = shared(2048);
  if (isa::thread() == 0) {
    isa::mbarrier_init(barrier, 1, "tile");
    isa::mbarrier_init_fence();
    isa::mbarrier_arrive_expect(barrier, bytes);
    isa::tensor_load(shared(0), map, barrier, c);
  }
  isa::sync_warp();
  isa::mbarrier_wait(barrier, 0);
}

TEST(HopperWords, tensor_loads_bring_a_tile_with_zeros_outside) {
  core::Draws draws(3);
  for (int n = 0; n < 40; ++n) {
    const auto swizzle = Swizzle(n % 2 == 0 ? 0 : 3);  // a row of 16 elements is 32 bytes
    const Tensor tensor(swizzle);
    const int corner[4] = {8 * int(draws.between(-2, 5)), int(draws.between(-5, 11)),
                           int(draws.between(-2, 3)), int(draws.between(-1, 2))};
    emulator::GlobalMemory memory;
    memory.input("tensor", tensor.data.data(), 2 * tensor.data.size());
    const emulator::Launch launch{.shared_bytes = 2056, .seed = u64(n + 1)};
    EXPECT_EQ(complaint(launch, memory,
                        [&] {
                          load_one(tensor.map, {{corner[0], corner[1], corner[2], corner[3]}}, 256);
                          for (u32 e = u32(isa::lane()); e < Tensor::kElements; e += 32) {
                            const u32 byte = exchanged(2 * e, swizzle);
                            const u32 word = isa::load_word(shared(byte & ~3u));
                            EXPECT_EQ(u16(word >> byte % 4 * 8), tensor.at(corner, e));
                          }
                        }),
              "");
  }
}

TEST(HopperWords, tensor_stores_write_a_tile_and_nothing_outside) {
  core::Draws draws(5);
  for (int n = 0; n < 20; ++n) {
    Tensor tensor(Swizzle::k32B);
    const Tensor before(Swizzle::k32B);
    const int corner[4] = {8 * int(draws.between(0, 5)), int(draws.between(-5, 11)), 1, 0};
    emulator::GlobalMemory memory;
    memory.output("tensor", tensor.data.data(), 2 * tensor.data.size(), true);
    EXPECT_EQ(complaint({.shared_bytes = 256, .seed = u64(n + 1)}, memory,
                        [&] {
                          for (u32 i = u32(isa::lane()); i < 64; i += 32)
                            isa::store(shared(4 * i), 0x80008000u);
                          isa::fence_async();
                          isa::sync_warp();
                          if (!isa::elect()) return;
                          isa::tensor_store(
                              tensor.map, shared(0),
                              Coordinates{corner[0], corner[1], corner[2], corner[3]});
                          isa::store_commit();
                          isa::store_wait<0>();
                        }),
              "");
    std::size_t written = 0, inside = 0;
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      const bool changed = tensor.data[i] != before.data[i];
      written += changed;
      EXPECT_TRUE(!changed || tensor.data[i] == 0x8000);
    }
    for (u32 e = 0; e < Tensor::kElements; ++e) inside += before.at(corner, e) != 0;
    EXPECT_EQ(written, inside);
  }
}

TEST(HopperWords, tensors_of_two_three_and_five_dimensions) {
  const std::vector<u16> data = numbered(4 * 64);
  emulator::GlobalMemory memory;
  memory.input("tensor", data.data(), 512);
  const auto map = [&](int rank) {
    TileMap m{.base = data.data(), .rank = rank, .swizzle = Swizzle::kNone};
    for (int d = 0; d < rank; ++d) {
      m.extent[d] = d == 0 ? 64 : d == rank - 1 ? 4 : 1;
      m.stride[d] = d == 0 ? 2 : 128;
      m.box[d] = d == 0 ? 64 : d == rank - 1 ? 2 : 1;
    }
    return emulator::encode(m);
  };
  const TensorMap two = map(2), three = map(3), five = map(5);
  EXPECT_EQ(complaint({.shared_bytes = 1024}, memory,
                      [&] {
                        const Address barrier = shared(768);
                        if (isa::elect()) {
                          isa::mbarrier_init(barrier, 1, "tiles");
                          isa::mbarrier_init_fence();
                          isa::mbarrier_arrive_expect(barrier, 768);
                          isa::tensor_load(shared(0), two, barrier, Coordinates{0, 2});
                          isa::tensor_load(shared(256), three, barrier, Coordinates{0, 0, 1});
                          isa::tensor_load(shared(512), five, barrier, Coordinates{0, 0, 0, 0, 3});
                        }
                        isa::sync_warp();
                        isa::mbarrier_wait(barrier, 0);
                        EXPECT_EQ(u16(isa::load_word(shared(0))), 129);
                        EXPECT_EQ(u16(isa::load_word(shared(256))), 65);
                        EXPECT_EQ(u16(isa::load_word(shared(512))), 193);
                        EXPECT_EQ(isa::load_word(shared(512 + 128)), 0u);
                      }),
            "");
}

TEST(HopperWords, tensor_maps_are_checked_like_the_drivers) {
  alignas(16) static u16 data[1024];
  const TileMap good{.base = data,
                     .rank = 2,
                     .extent = {64, 8},
                     .stride = {2, 128},
                     .box = {64, 8},
                     .swizzle = Swizzle::k128B};
  EXPECT_NO_THROW(emulator::encode(good));
  const auto refused = [&](auto change, const char* sentence) {
    TileMap bad = good;
    change(bad);
    try {
      emulator::encode(bad);
      ADD_FAILURE() << "accepted: " << sentence;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(sentence));
    }
  };
  refused([](TileMap& m) { m.base = data + 1; }, "the base is not a multiple of 16");
  refused([](TileMap& m) { m.stride[1] = 120; }, "must be a multiple of 16");
  refused([](TileMap& m) { m.extent[1] = 0; }, "it must be 1 to 2^32");
  refused([](TileMap& m) { m.box[1] = 257; }, "it must have 1 to 256");
  refused([](TileMap& m) { m.swizzle = Swizzle::k64B; }, "wider than the swizzle");
  refused([](TileMap& m) { m.rank = 6; }, "the rank must be 1 to 5");
}

// ---- Phases, registers, clusters ----

TEST(HopperWords, phases_of_an_mbarrier_alternate) {
  for (const u64 seed : kSchedules)
    EXPECT_EQ(complaint({.threads = 64, .shared_bytes = 64, .seed = seed}, {},
                        [] {
                          const Address full = shared(0), empty = shared(8);
                          if (isa::thread() == 0) {
                            isa::mbarrier_init(full, 1, "full");
                            isa::mbarrier_init(empty, 32, "empty");
                          }
                          isa::sync_block();
                          if (isa::thread() == 0)
                            for (u32 i = 0; i < 9; ++i) {
                              isa::mbarrier_wait(empty, (i & 1) ^ 1);
                              isa::store(shared(16), i);
                              isa::mbarrier_arrive(full);
                            }
                          if (isa::warp() == 1)
                            for (u32 i = 0; i < 9; ++i) {
                              isa::mbarrier_wait(full, i & 1);
                              EXPECT_TRUE(isa::mbarrier_test(full, i & 1));
                              EXPECT_EQ(isa::load_word(shared(16)), i);
                              isa::mbarrier_arrive(empty);
                            }
                        }),
              "");
}

TEST(HopperWords, one_lane_is_elected_and_registers_change_hands) {
  int elected = 0;
  EXPECT_EQ(complaint({.threads = 256}, {},
                      [&] {
                        if (isa::warpgroup() == 0) isa::registers_give<24>();
                        if (isa::warpgroup() == 1) isa::registers_take<256>();
                        elected += isa::elect();
                      }),
            "");
  EXPECT_EQ(elected, 8);
}

TEST(HopperWords, blocks_of_a_cluster_read_each_other) {
  for (const u64 seed : kSchedules)
    EXPECT_EQ(
        complaint(
            {.grid = {8, 1, 1}, .threads = 64, .shared_bytes = 64, .seed = seed, .cluster = 4}, {},
            [] {
              EXPECT_EQ(isa::cluster_size(), 4);
              EXPECT_EQ(isa::cluster_rank(), isa::block().x % 4);
              if (isa::thread() == 0) isa::store(shared(0), u32(isa::block().x));
              isa::cluster_arrive();
              isa::cluster_wait();
              const int next = (isa::cluster_rank() + 1) % 4;
              EXPECT_EQ(isa::load_remote(isa::map_shared(shared(0), next)),
                        u32(isa::block().x / 4 * 4 + next));
              isa::cluster_arrive();
              isa::cluster_wait();
            }),
        "");
}

// Each of two blocks loads half of a tile for both and releases the other's stage.
TEST(HopperWords, multicast_fills_every_block_of_the_mask) {
  const Tensor tensor(Swizzle::kNone);
  for (const u64 seed : kSchedules) {
    emulator::GlobalMemory memory;
    memory.input("tensor", tensor.data.data(), 2 * tensor.data.size());
    EXPECT_EQ(
        complaint({.grid = {2, 1, 1}, .shared_bytes = 1024, .seed = seed, .cluster = 2}, memory,
                  [&] {
                    const Address full = shared(512), free = shared(520);
                    const int rank = isa::cluster_rank();
                    if (isa::thread() == 0) {
                      isa::mbarrier_init(full, 1, "full");
                      isa::mbarrier_init(free, 2, "free");
                      isa::mbarrier_init_fence();
                    }
                    isa::cluster_arrive();
                    isa::cluster_wait();
                    for (u32 step = 0; step < 3; ++step) {
                      if (isa::thread() == 0) {
                        isa::mbarrier_arrive_expect(full, 512);
                        isa::mbarrier_wait_cluster(free, (step & 1) ^ 1);
                        isa::tensor_multicast({shared(u32(rank) * 256), full, 3}, tensor.map,
                                              Coordinates{0, 4 * rank, 0, int(step % 2)});
                      }
                      isa::mbarrier_wait(full, step & 1);
                      for (int half = 0; half < 2; ++half) {
                        const int corner[4] = {0, 4 * half, 0, int(step % 2)};
                        EXPECT_EQ(
                            u16(isa::load_word(shared(256 * u32(half) + 4 * u32(isa::lane())))),
                            tensor.at(corner, 2 * u32(isa::lane())));
                      }
                      isa::fence_async();
                      isa::sync_warp();
                      if (isa::lane() < 2)
                        isa::mbarrier_arrive_remote(isa::map_shared(free, isa::lane()));
                    }
                    isa::cluster_arrive();
                    isa::cluster_wait();
                  }),
        "")
        << "schedule " << seed;
  }
}

TEST(HopperWords, a_trace_says_who_did_what_and_when) {
  std::ostringstream out;
  emulator::Trace trace(out);
  const Tensor tensor(Swizzle::kNone);
  emulator::GlobalMemory memory;
  memory.input("tensor", tensor.data.data(), 2 * tensor.data.size());
  EXPECT_EQ(complaint({.shared_bytes = 2056, .trace = &trace}, memory,
                      [&] {
                        isa::role("loader \"one\"");
                        load_one(tensor.map, {{0, 0, 0, 0}}, 256);
                        isa::sync_block();
                      }),
            "");
  std::set<std::string> words;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    const auto span = nlohmann::json::parse(line);
    words.insert(span.at("word"));
    EXPECT_LE(span.at("from"), span.at("until"));
    EXPECT_EQ(span.at("role"), "loader \"one\"");
    EXPECT_EQ(span.at("file"), "hopper_words_test.cpp");
    EXPECT_GT(span.at("line"), 0);
    EXPECT_EQ(span.at("block"), nlohmann::json({0, 0, 0}));
    const bool copy = span.at("word") == "cp.async.bulk.tensor (load)";
    EXPECT_EQ(copy, span.at("thread") == -1);
  }
  EXPECT_EQ(words, (std::set<std::string>{"bar.sync", "cp.async.bulk.tensor (load)",
                                          "mbarrier.try_wait"}));
}

}  // namespace
}  // namespace tessera::test
