// The tensor core of sm_90 against plain arithmetic, by random descriptors, and what it costs.
#include <isa/memory.cuh>
#include <isa/tensor_copy.cuh>
#include <isa/warpgroup.cuh>
#include <isa/wgmma.cuh>

#include <vector>

#include "core/dtype.hpp"
#include "core/random.hpp"
#include "emulated/kernels.hpp"
#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::Address;
using device::Bfloat16;
using device::Float16;
using device::Major;
using device::Swizzle;
using device::u16;
using device::u32;
using device::u64;
using device::Vector4;

// Element (row, k) of an operand as the manual draws it for each major and swizzle, in bytes.
// PTX ISA, "Canonical Layouts": in units of eight rows and a row of the swizzle.
struct Layout {
  Major major;
  Swizzle swizzle;
  u32 start, leading, stride;

  u32 width() const { return swizzle == Swizzle::kNone ? 16 : 256u >> u32(swizzle); }
  u32 byte(u32 row, u32 k) const {
    u32 inner, outer, offset;  // the contiguous index, the other one
    if (major == Major::kK) {
      inner = k, outer = row;
      const u32 columns = width() / 2;
      offset = outer % 8 * width() + outer / 8 * stride + inner % columns * 2 +
               inner / columns * (swizzle == Swizzle::kNone ? leading : 0);
    } else {
      inner = row, outer = k;
      const u32 rows = width() / 2;
      const u32 far = swizzle == Swizzle::kNone ? stride : leading;
      const u32 deep = swizzle == Swizzle::kNone ? leading : stride;
      offset = inner % rows * 2 + inner / rows * far + outer % 8 * width() + outer / 8 * deep;
    }
    return exchanged(start + offset, swizzle);
  }
};

constexpr u32 kImage = 112 * 1024;

// Small integers, so that sums are exact in any order.
template <class T> u16 bits_of(int x) {
  if constexpr (std::is_same_v<T, Float16>) return core::float16_from_float(float(x));
  return core::bfloat16_from_float(float(x));
}
template <class T> float value_of(u16 bits) {
  if constexpr (std::is_same_v<T, Float16>) return core::float_from_float16(bits);
  return core::float_from_bfloat16(bits);
}

template <class T> struct Image {
  std::vector<u16> at = std::vector<u16>(kImage / 2);
  explicit Image(core::Draws& draws) {
    for (u16& x : at) x = bits_of<T>(int(draws.between(-8, 8)));
  }
  float value(u32 byte) const { return value_of<T>(at[(byte - 1024) / 2]); }
  void store() const {  // by all threads, then for the tensor core
    for (u32 i = u32(isa::thread()) * 16; i < kImage; i += 128 * 16) {
      const auto word = [&](u32 j) {
        return u32(at[i / 2 + 2 * j]) | u32(at[i / 2 + 2 * j + 1]) << 16;
      };
      isa::store(shared(i), Vector4{word(0), word(1), word(2), word(3)});
    }
    isa::fence_async();
    isa::sync_block();
  }
};

Layout random_layout(core::Draws& draws, Major major) {
  Layout l{major, Swizzle(draws.between(0, 3)), 0, 0, 0};
  const auto pick = [&](u32 unit, u32 most) {
    return unit * u32(draws.between(1, int(most / unit)));
  };
  const bool odd = draws.between(0, 1) == 1;  // strides and starts that no kernel writes
  const u32 unit = odd ? 16 : 8 * l.width();
  l.start = 1024 + pick(unit, 8192);
  l.leading = pick(unit, 3072);
  l.stride = pick(unit, 3072);
  return l;
}

template <class T, int n, Major a_major, Major b_major> void compare_products(core::Draws& draws) {
  const Image<T> image(draws);
  const Layout a = random_layout(draws, a_major), b = random_layout(draws, b_major);
  const emulator::Launch launch{.threads = 128, .shared_bytes = kImage};
  const auto kernel = [&] {
    image.store();
    isa::Registers<float, n / 2> d;
    isa::wgmma_fence(d);
    isa::wgmma<T, a_major, b_major>(
        d, isa::matrix(Address(a.start), a.leading, a.stride, a.swizzle),
        isa::matrix(Address(b.start), b.leading, b.stride, b.swizzle), false);
    isa::wgmma_commit(d);
    isa::wgmma_wait<0>(d);
    for (int e = 0; e < d.size; ++e) {
      const int row = isa::warp() * 16 + isa::lane() / 4 + e / 2 % 2 * 8;
      const int column = e / 4 * 8 + isa::lane() % 4 * 2 + e % 2;
      float sum = 0;
      for (u32 k = 0; k < 16; ++k)
        sum += image.value(a.byte(u32(row), k)) * image.value(b.byte(u32(column), k));
      EXPECT_EQ(d[e], sum);
    }
  };
  EXPECT_EQ(complaint(launch, {}, kernel), "");
}

template <class T> void compare_all_products(core::Draws& draws) {
  compare_products<T, 64, Major::kK, Major::kK>(draws);
  compare_products<T, 128, Major::kK, Major::kMN>(draws);
  compare_products<T, 80, Major::kMN, Major::kK>(draws);
  compare_products<T, 256, Major::kMN, Major::kMN>(draws);
}

TEST(HopperProducts, wgmma_finds_its_operands_by_random_descriptors) {
  core::Draws draws(11);
  for (int n = 0; n < 6; ++n) {
    compare_all_products<Bfloat16>(draws);
    compare_all_products<Float16>(draws);
  }
}

// D = A B with A in registers, twice, the second time on top; B(k, j) = 1 where j = k.
TEST(HopperProducts, wgmma_takes_a_from_registers_and_adds) {
  EXPECT_EQ(
      complaint(
          {.threads = 128, .shared_bytes = 4096}, {},
          [] {
            for (u32 i = u32(isa::thread()); i < 256; i += 128) {
              u16 v[8];
              const u32 row = i / 2 % 64, k = i % 2 * 8;
              for (u32 e = 0; e < 8; ++e) v[e] = bits_of<Bfloat16>(row == k + e);
              const u32 at = row / 8 * 256 + row % 8 * 16 + k / 8 * 128;
              if (i < 128)
                isa::store(shared(at), Vector4{v[0] | u32(v[1]) << 16, v[2] | u32(v[3]) << 16,
                                               v[4] | u32(v[5]) << 16, v[6] | u32(v[7]) << 16});
            }
            isa::fence_async();
            isa::sync_block();
            isa::Registers<float, 32> d;
            isa::Registers<u32, 4> a;
            for (int r = 0; r < 4; ++r) {
              const int row = isa::lane() / 4 + r % 2 * 8, k = isa::lane() % 4 * 2 + r / 2 * 8;
              a[r] = u32(bits_of<Bfloat16>(row + k)) | u32(bits_of<Bfloat16>(row + k + 1)) << 16;
            }
            const u64 b = isa::matrix(shared(0), 128, 256, Swizzle::kNone);
            isa::wgmma_fence(d, a);
            isa::wgmma<Bfloat16, Major::kK>(d, isa::step_of(a, 0), b, false);
            isa::wgmma<Bfloat16, Major::kK>(d, isa::step_of(a, 0), b, true);
            isa::wgmma_commit(d);
            isa::wgmma_wait<0>(d);
            for (int e = 0; e < 32; ++e) {
              const int row = isa::lane() / 4 + e / 2 % 2 * 8;
              const int column = e / 4 * 8 + isa::lane() % 4 * 2 + e % 2;
              EXPECT_EQ(d[e], column < 16 ? 2 * (row + column) : 0);
            }
          }),
      "");
}

TEST(HopperProducts, stmatrix_writes_what_ldmatrix_would_read) {
  EXPECT_EQ(complaint({.shared_bytes = 512}, {},
                      [] {
                        const u32 lane = u32(isa::lane()), first = lane / 4 * 8 + lane % 4 * 2;
                        const auto pair = [](u32 x) { return x | (x + 1) << 16; };
                        isa::store_matrices(
                            shared(16 * lane),
                            {pair(first), pair(first + 64), pair(first + 128), pair(first + 192)});
                        isa::sync_warp();
                        for (u32 i = lane; i < 128; i += 32)
                          EXPECT_EQ(isa::load_word(shared(4 * i)), pair(2 * i));
                      }),
            "");
}

// S = Q K^T of 128 x 128 x 64 by two warpgroups, from a tile with the swizzle of 128 bytes.
void multiply_tile() {
  for (int i = isa::thread(); i < 2 * 128 * 8; i += 256)
    isa::store(shared(u32(16 * i)), Vector4{0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80});
  isa::fence_async();
  isa::sync_block();
  isa::Registers<float, 64> s;
  const u64 q = isa::matrix(shared(u32(isa::warpgroup()) * 8192), 16, 1024, Swizzle::k128B);
  const u64 k = isa::matrix(shared(16384), 16, 1024, Swizzle::k128B);
  isa::wgmma_fence(s);
  for (u32 d = 0; d < 4; ++d)
    isa::wgmma<Bfloat16, Major::kK, Major::kK>(s, isa::advance(q, 32 * d), isa::advance(k, 32 * d),
                                               d > 0);
  isa::wgmma_commit(s);
  isa::wgmma_wait<0>(s);
  for (int e = 0; e < 64; ++e) EXPECT_EQ(s[e], 64.f);
}

TEST(HopperProducts, a_tile_of_products_takes_two_milliseconds) {
  expect_quick("wgmma.m64n128k16, 128 x 128 x 64", 2, [] {
    EXPECT_EQ(complaint({.threads = 256, .shared_bytes = 32768}, {}, multiply_tile), "");
  });
}

}  // namespace
}  // namespace tessera::test
