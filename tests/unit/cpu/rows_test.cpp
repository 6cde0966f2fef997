#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/random.hpp"
#include "unit/cpu/words.hpp"

namespace tessera::test {
namespace {

using core::DType;

class Rows : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Rows, testing::ValuesIn(present_words()), target_name);

constexpr float kUntouched = -77.25f;

// Elements of one type that lie `stride` apart, between elements that nobody may touch.
class Line {
 public:
  Line(DType dtype, std::int64_t stride, std::int64_t n)
      : size_(core::size_of(dtype)),
        bytes_(std::size_t((std::max<std::int64_t>(1, n) * std::abs(stride) + 17) * size_), 0x5a) {
    tensor_.dtype = dtype;
    tensor_.shape = {1, 1, 1, n};
    tensor_.stride = {0, 0, 0, stride};
    const std::int64_t first = 8 + (stride < 0 ? (n - 1) * -stride : 0);
    tensor_.data = bytes_.data() + first * size_;
  }

  const core::Tensor& tensor() const { return tensor_; }
  void* data() const { return tensor_.data; }
  std::uint32_t bits(std::int64_t i) const {
    std::uint32_t x = 0;
    std::memcpy(&x, tensor_.at(0, 0, 0, i), std::size_t(size_));
    return x;
  }
  void set_bits(std::int64_t i, std::uint32_t x) {
    std::memcpy(tensor_.at(0, 0, 0, i), &x, std::size_t(size_));
  }
  // Bytes that hold something else than before.
  std::int64_t touched() const {
    return std::count_if(bytes_.begin(), bytes_.end(), [](auto b) { return b != 0x5a; });
  }

 private:
  std::int64_t size_;
  std::vector<std::uint8_t> bytes_;
  core::Tensor tensor_;
};

bool same(float a, float b) {
  if (std::isnan(b)) return std::isnan(a) && std::signbit(a) == std::signbit(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// ---- Loads ----

// `n` elements at a time, so that whole vectors and what is left over both take part.
void expect_every_value_loads(const Words& w, DType dtype, float (*scalar)(std::uint16_t)) {
  const std::int64_t n = 3 * w.lanes + 1;
  for (const std::int64_t stride : {1, 2, -1}) {
    Line from(dtype, stride, n);
    std::vector<float> to(std::size_t(n) + 1, kUntouched);
    for (std::uint32_t first = 0; first < 0x10000; first += std::uint32_t(n)) {
      for (std::int64_t i = 0; i < n; ++i) from.set_bits(i, std::uint16_t(first + i));
      w.load(to.data(), from.tensor(), from.data(), n);
      for (std::int64_t i = 0; i < n; ++i)
        ASSERT_PRED2(same, to[std::size_t(i)], scalar(std::uint16_t(first + i))) << first + i;
      ASSERT_EQ(to.back(), kUntouched);
    }
  }
}

TEST_P(Rows, EveryFloat16LoadsAsCoreSays) {
  expect_every_value_loads(w, DType::kFloat16, core::float_from_float16);
}
TEST_P(Rows, EveryBfloat16LoadsAsCoreSays) {
  expect_every_value_loads(w, DType::kBfloat16, core::float_from_bfloat16);
}

TEST_P(Rows, Float32LoadsAsItIs) {
  for (const std::int64_t stride : {1, 3, 0, -2})
    for (std::int64_t n = 0; n <= 40; ++n) {
      Line from(DType::kFloat32, stride, n);
      const auto value = [&](std::int64_t i) { return stride == 0 ? 0.5f : float(i) - 3.5f; };
      for (std::int64_t i = 0; i < n; ++i) from.set_bits(i, std::bit_cast<std::uint32_t>(value(i)));
      std::vector<float> to(std::size_t(n) + 1, kUntouched);
      w.load(to.data(), from.tensor(), from.data(), n);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(to[std::size_t(i)], value(i));
      ASSERT_EQ(to.back(), kUntouched);
    }
}

// ---- Stores ----

std::uint32_t core_bits(DType dtype, float x) {
  if (dtype == DType::kFloat16) return core::float16_from_float(x);
  if (dtype == DType::kBfloat16) return core::bfloat16_from_float(x);
  return std::bit_cast<std::uint32_t>(x);
}

// Floats of every size, and the ties, overflows and subnormals of both 16-bit types.
std::vector<float> floats_to_round() {
  std::vector<float> all{0.f,       -0.f,     65504.f, 65519.99f,
                         65520.f,   65536.f,  6e-8f,   2.9e-8f,
                         2.98e-8f,  3e-8f,    6.1e-5f, 3.39e38f,
                         3.4e38f,   -3.4e38f, 1e-45f,  INFINITY,
                         -INFINITY, NAN,      -NAN,    std::bit_cast<float>(0x7f800001u)};
  for (std::uint32_t half = 0; half < 0x7c00;
       half += 7) {  // the middle of two halves, and beside it
    const float a = core::float_from_float16(std::uint16_t(half));
    const float b = core::float_from_float16(std::uint16_t(half + 1));
    const float middle = std::isinf(b) ? 65520.f : (a + b) / 2;
    for (const float x : {middle, std::nextafter(middle, 0.f), std::nextafter(middle, 1e9f)})
      all.insert(all.end(), {x, -x});
  }
  for (std::uint32_t upper = 0; upper < 0x7f80; upper += 13)
    for (const std::uint32_t lower : {0x7fffu, 0x8000u, 0x8001u})
      all.push_back(std::bit_cast<float>(upper << 16 | lower));
  for (std::uint64_t i = 0; i < 30'000; ++i)
    all.push_back(std::bit_cast<float>(std::uint32_t(core::random_bits(11, 0, i).low)));
  return all;
}

TEST_P(Rows, StoresRoundAsCoreDoes) {
  const std::vector<float> all = floats_to_round();
  const std::int64_t n = 3 * w.lanes + 1;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16})
    for (const std::int64_t stride : {1, 3, -1}) {
      Line to(dtype, stride, n);
      for (std::size_t first = 0; first + std::size_t(n) <= all.size(); first += std::size_t(n)) {
        w.store(to.tensor(), to.data(), all.data() + first, n);
        for (std::int64_t i = 0; i < n; ++i)
          ASSERT_EQ(to.bits(i), core_bits(dtype, all[first + std::size_t(i)]))
              << core::name_of(dtype) << " of " << std::hex
              << std::bit_cast<std::uint32_t>(all[first + std::size_t(i)]);
      }
    }
}

TEST_P(Rows, StoresNothingElse) {
  const std::vector<float> ones(41, 1.f);  // no byte of 1 is that of an untouched element
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16})
    for (const std::int64_t stride : {1, 2, -3})
      for (std::int64_t n = 0; n <= 40; ++n) {
        Line to(dtype, stride, n);
        w.store(to.tensor(), to.data(), ones.data(), n);
        ASSERT_EQ(to.touched(), n * core::size_of(dtype)) << core::name_of(dtype) << ' ' << n;
      }
}

// ---- Transposition ----

TEST_P(Rows, TransposesRowsOfAnyLength) {
  for (std::int64_t n = 0; n <= 33; ++n)
    for (const std::int64_t stride : {n, n + 1, n + 5, std::int64_t{96}}) {
      std::vector<float> rows(std::size_t(w.together * stride + 1));
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = float(i);
      for (const std::int64_t column : {std::int64_t{0}, w.strip - w.together}) {
        std::vector<float> to(std::size_t((n + 1) * w.strip), kUntouched);
        w.transpose_rows(to.data() + column, rows.data(), stride, n);
        for (std::int64_t i = 0; i <= n; ++i)
          for (std::int64_t c = 0; c < w.strip; ++c) {
            const bool inside = i < n && c >= column && c < column + w.together;
            const float want = inside ? float((c - column) * stride + i) : kUntouched;
            ASSERT_EQ(to[std::size_t(i * w.strip + c)], want) << n << ' ' << i << ' ' << c;
          }
      }
    }
}

}  // namespace
}  // namespace tessera::test
