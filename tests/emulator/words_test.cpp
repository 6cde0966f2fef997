// The words against the text of the PTX manual, and what a tile of products costs.
#include <isa/atomic.cuh>
#include <isa/convert.cuh>
#include <isa/copy.cuh>
#include <isa/math.cuh>
#include <isa/memory.cuh>
#include <isa/mma.cuh>

#include <cmath>
#include <limits>
#include <vector>

#include "core/dtype.hpp"
#include "emulated/kernels.hpp"
#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::Bfloat16;
using device::Float16;
using device::u16;
using device::u32;
using device::Vector4;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void run(const emulator::Launch& launch, const std::function<void()>& kernel) {
  ASSERT_EQ(complaint(launch, {}, kernel), "");
}

// Row r of matrix m holds 64 m + 8 r + column, as bits.
void fill_matrices() {
  u32 row[4];
  for (u32 c = 0; c < 4; ++c) {
    const u32 first = u32(isa::lane()) * 8 + 2 * c;
    row[c] = first | (first + 1) << 16;
  }
  isa::store(shared(16 * u32(isa::lane())), Vector4{row[0], row[1], row[2], row[3]});
  isa::sync_warp();
}

TEST(Words, ldmatrix_gives_each_lane_two_neighbours_of_a_row) {
  run({.shared_bytes = 512}, [] {
    fill_matrices();
    const Vector4 v = isa::load_matrices(shared(16 * u32(isa::lane())));
    const u32 first = u32(isa::lane() / 4 * 8 + isa::lane() % 4 * 2);
    EXPECT_EQ(v.x, first | (first + 1) << 16);
    EXPECT_EQ(v.w, (first + 192) | (first + 193) << 16);
  });
}

TEST(Words, ldmatrix_trans_gives_each_lane_two_neighbours_of_a_column) {
  run({.shared_bytes = 512}, [] {
    fill_matrices();
    const Vector4 v = isa::load_matrices_transposed(shared(16 * u32(isa::lane())));
    const u32 first = u32(isa::lane() % 4 * 16 + isa::lane() / 4);
    EXPECT_EQ(v.x, first | (first + 8) << 16);
    EXPECT_EQ(v.z, (first + 128) | (first + 136) << 16);
  });
}

// A(i, k) = i + k / 16, B(k, j) = 1 if k == j else 0: D = the first eight columns of A, twice.
template <class T> void multiply_by_identity() {
  const int g = isa::lane() / 4, t = isa::lane() % 4 * 2;
  const auto a_at = [](int i, int k) { return float(i) + float(k) / 16; };
  u32 a[4], b[2];
  for (int r = 0; r < 4; ++r) {
    const int i = g + r % 2 * 8, k = t + r / 2 * 8;
    a[r] = isa::pack<T>(a_at(i, k), a_at(i, k + 1));
  }
  for (int r = 0; r < 2; ++r)
    b[r] = isa::pack<T>(t + 8 * r == g ? 1.f : 0.f, t + 1 + 8 * r == g ? 1.f : 0.f);
  float d[4] = {0, 0, 0, 0};
  isa::mma<T>(d, a, b);
  isa::mma<T>(d, a, b);
  for (int r = 0; r < 4; ++r) {
    const float exact = a_at(g + r / 2 * 8, t + r % 2);
    EXPECT_NEAR(d[r], 2 * exact, exact / 64);
  }
}

TEST(Words, mma_multiplies_and_adds) {
  run({}, [] {
    multiply_by_identity<Float16>();
    multiply_by_identity<Bfloat16>();
  });
}

TEST(Words, shuffles_and_votes) {
  run({}, [] {
    const auto mine = float(isa::lane());
    EXPECT_EQ(isa::shuffle_xor(mine, 5), float(isa::lane() ^ 5));
    EXPECT_EQ(isa::shuffle(mine, 7), 7.f);
    EXPECT_TRUE(isa::any(isa::lane() == 31));
    EXPECT_FALSE(isa::any(false));
  });
}

TEST(Words, arithmetic_at_its_edges) {
  run({}, [] {
    EXPECT_EQ(isa::exp2(-kInfinity), 0.f);
    EXPECT_EQ(isa::exp2(-130.f), 0.f);  // a subnormal result
    EXPECT_TRUE(std::isnan(isa::exp2(NAN)));
    EXPECT_EQ(isa::log2(0.f), -kInfinity);
    EXPECT_EQ(isa::max(NAN, 3.f), 3.f);
    EXPECT_EQ(isa::max(3.f, NAN), 3.f);
    EXPECT_EQ(isa::fma(0x1.001p0f, 0x1.001p0f, -0x1.002p0f), 0x1p-24f);
  });
}

TEST(Words, conversions_round_to_nearest_even) {
  run({}, [] {
    EXPECT_EQ(isa::pack<Float16>(1.f, -65520.f), 0xfc003c00u);
    EXPECT_EQ(isa::pack<Bfloat16>(0x1.01p0f, 0x1.03p0f), 0x3f823f80u);
    for (u32 bits = u32(isa::lane()); bits < 0x10000; bits += 32) {
      const float x = isa::to_float(Float16{u16(bits)});
      EXPECT_TRUE(std::isnan(x) || isa::pack<Float16>(x, 0.f) == bits);
    }
  });
}

TEST(Words, atomics_return_what_was_there_whatever_the_order) {
  for (const emulator::u64 seed : kSchedules) {
    u32 count = 0, last = 0;
    float sum = 0;
    emulator::GlobalMemory memory;
    memory.output("count", &count, 4, true);
    memory.output("last", &last, 4, true);
    memory.output("sum", &sum, 4, true);
    std::vector<int> seen(128);
    EXPECT_EQ(complaint({.grid = {2, 1, 1}, .threads = 64, .seed = seed}, memory,
                        [&] {
                          ++seen[isa::atomic_add(&count, 1u)];
                          isa::atomic_add(&sum, 0.5f);
                          isa::atomic_max(&last, u32(isa::thread()));
                        }),
              "");
    EXPECT_EQ(seen, std::vector<int>(128, 1));
    EXPECT_EQ(sum, 64.f);
    EXPECT_EQ(last, 63u);
  }
}

TEST(Words, schedules_differ) {
  const auto order = [](emulator::u64 seed) {
    std::vector<int> warps;
    EXPECT_EQ(complaint({.threads = 256, .seed = seed}, {},
                        [&] {
                          isa::any(true);
                          if (isa::lane() == 0) warps.push_back(isa::warp());
                        }),
              "");
    return warps;
  };
  EXPECT_NE(order(1), order(3));
  EXPECT_NE(order(2), order(4));
  EXPECT_EQ(order(3), order(3));
}

// S = Q K^T of 128 x 128 x 64 by eight warps: 512 products of 16 x 8 x 16.
void multiply_tile() {
  const int lane = isa::lane(), row = 16 * isa::warp();
  for (int i = isa::thread(); i < 2 * 128 * 8; i += 256)
    isa::store(shared(16 * u32(i)), Vector4{0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80});
  isa::sync_block();
  float s[16][4] = {};
  for (int k = 0; k < 4; ++k) {
    const Vector4 a =
        isa::load_matrices(shared(u32((row + lane % 16) * 128 + (2 * k + lane / 16) * 16)));
    for (int n = 0; n < 8; ++n) {
      const int key = 16 * n + lane / 16 * 8 + lane % 8, chunk = 2 * k + lane / 8 % 2;
      const Vector4 b = isa::load_matrices(shared(u32(128 * 128 + key * 128 + chunk * 16)));
      isa::mma<Bfloat16>(s[2 * n], &a.x, &b.x);
      isa::mma<Bfloat16>(s[2 * n + 1], &a.x, &b.z);
    }
  }
  for (auto& tile : s)
    for (const float x : tile) EXPECT_EQ(x, 64.f);
}

TEST(Words, a_tile_of_products_takes_few_milliseconds) {
  expect_quick("mma.m16n8k16, 128 x 128 x 64", 8,
               [] { run({.threads = 256, .shared_bytes = 32768}, multiply_tile); });
}

}  // namespace
}  // namespace tessera::test
