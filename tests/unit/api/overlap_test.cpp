// Overlap against a count of every byte, and the layouts that must never be refused.
#include "api/overlap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

namespace tessera::test {
namespace {

using core::DType;
using core::Index4;
using core::Tensor;

alignas(64) std::array<std::byte, 4096> memory;

Tensor tensor(std::int64_t first, Index4 shape, Index4 stride, DType dtype = DType::kFloat32) {
  return {memory.data() + first, shape, stride, dtype};
}

// Every byte of every element, with repetition.
std::multiset<const std::byte*> bytes_of(const Tensor& t) {
  std::multiset<const std::byte*> bytes;
  Index4 i;
  for (i[0] = 0; i[0] < t.shape[0]; ++i[0])
    for (i[1] = 0; i[1] < t.shape[1]; ++i[1])
      for (i[2] = 0; i[2] < t.shape[2]; ++i[2])
        for (i[3] = 0; i[3] < t.shape[3]; ++i[3])
          for (std::int64_t byte = 0; byte < size_of(t.dtype); ++byte)
            bytes.insert(t.at(i[0], i[1], i[2], i[3]) + byte);
  return bytes;
}

bool counted_self_overlap(const Tensor& t) {
  const auto bytes = bytes_of(t);
  return std::set(bytes.begin(), bytes.end()).size() != bytes.size();
}

bool counted_overlap(const Tensor& a, const Tensor& b) {
  const auto in_a = bytes_of(a), in_b = bytes_of(b);
  return std::any_of(in_a.begin(), in_a.end(), [&](auto* byte) { return in_b.contains(byte); });
}

// Small shapes with strides that nest, tie, cross, vanish or turn back.
Tensor any_tensor(std::mt19937& random) {
  const auto below = [&](std::int64_t n) { return std::int64_t(random() % std::uint64_t(n)); };
  constexpr DType kTypes[] = {DType::kUint8, DType::kFloat16, DType::kFloat32, DType::kFloat64};
  Tensor t = tensor(0, {}, {}, kTypes[below(4)]);
  for (std::size_t d = 0; d < 4; ++d) {
    t.shape[d] = below(20) == 0 ? 0 : 1 + below(3);
    t.stride[d] = below(3) == 0 ? below(5) - 2 : below(41) - 20;
  }
  t.data = memory.data() + 2048 + below(60) * size_of(t.dtype);
  return t;
}

TEST(Overlap, AgreesWithACountOfAllBytes) {
  std::mt19937 random(1);
  int self = 0, pairs = 0;
  constexpr int kCases = 4000;
  for (int i = 0; i < kCases; ++i) {
    const Tensor a = any_tensor(random), b = any_tensor(random);
    ASSERT_EQ(api::overlaps_itself(a), counted_self_overlap(a)) << "case " << i;
    ASSERT_EQ(api::overlap(a, b), counted_overlap(a, b)) << "case " << i;
    self += api::overlaps_itself(a);
    pairs += api::overlap(a, b);
  }
  EXPECT_GT(std::min(self, kCases - self), kCases / 10);  // both answers are common
  EXPECT_GT(std::min(pairs, kCases - pairs), kCases / 10);
}

TEST(Overlap, AcceptsEveryOrderOfADenseTensor) {
  const Index4 sizes{3, 1000, 16, 64};
  Index4 order{0, 1, 2, 3};
  do {
    Tensor t = tensor(0, sizes, {});
    std::int64_t stride = 1;
    for (const std::int64_t d : order) {
      t.stride[std::size_t(d)] = stride;
      stride *= sizes[std::size_t(d)];
    }
    EXPECT_FALSE(api::overlaps_itself(t));
    t.stride[1] *= -1;
    EXPECT_FALSE(api::overlaps_itself(t));
  } while (std::next_permutation(order.begin(), order.end()));
}

// [B, L, 4, H, D] holds q, k, v and out side by side.
TEST(Overlap, AcceptsSlicesOfOneBuffer) {
  constexpr std::int64_t kBatch = 8, kLength = 16384, kHeads = 16, kDim = 64;
  constexpr std::int64_t kRow = kHeads * kDim;
  const auto slice = [](std::int64_t part) {
    return Tensor{reinterpret_cast<float*>(std::uintptr_t{1} << 32) + part * kRow,
                  {kBatch, kLength, kHeads, kDim},
                  {kLength * 4 * kRow, 4 * kRow, kDim, 1},
                  DType::kFloat32};
  };
  EXPECT_FALSE(api::overlaps_itself(slice(3)));
  for (std::int64_t part = 0; part < 3; ++part) EXPECT_FALSE(api::overlap(slice(3), slice(part)));
  Tensor shifted = slice(2);
  shifted.data = static_cast<float*>(shifted.data) + 1;  // its last element of a row is in part 3
  EXPECT_TRUE(api::overlap(slice(3), shifted));
}

TEST(Overlap, FindsTheOneElementThatTwoDimensionsShare) {
  // 15 = 3 * 5 = 5 * 3: the strides 3 and 5 first meet there.
  EXPECT_TRUE(api::overlaps_itself(tensor(0, {1, 1, 6, 4}, {0, 0, 3, 5})));
  EXPECT_FALSE(api::overlaps_itself(tensor(0, {1, 1, 5, 4}, {0, 0, 3, 5})));
  EXPECT_FALSE(api::overlaps_itself(tensor(0, {1, 1, 6, 3}, {0, 0, 3, 5})));
}

TEST(Overlap, EmptyTensorsLieNowhere) {
  const Tensor empty = tensor(0, {2, 0, 1, 1}, {0, 0, 0, 0});
  EXPECT_FALSE(api::overlaps_itself(empty));
  EXPECT_FALSE(api::overlap(empty, tensor(0, {1, 1, 1, 8}, {0, 0, 0, 1})));
  EXPECT_FALSE(api::overlap(tensor(0, {1, 1, 1, 8}, {0, 0, 0, 1}), empty));
}

// Strides without common structure: the search gives up, in time, on the safe side.
TEST(Overlap, ContrivedStridesTakeNoLongSearch) {
  const Tensor t =
      tensor(0, {40'000, 40'000, 40'000, 40'000}, {1'000'003, 1'000'033, 1'000'037, 1'000'039});
  EXPECT_TRUE(api::overlaps_itself(t));
}

}  // namespace
}  // namespace tessera::test
