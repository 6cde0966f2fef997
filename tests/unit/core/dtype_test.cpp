#include "core/dtype.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/philox.hpp"

namespace tessera::core {
namespace {

// What a 16-bit format is, said a second time: `fraction` bits below `exponent` bits.
struct Format {
  DType dtype;
  int exponent, fraction;
  float (*to_float)(std::uint16_t);
  std::uint16_t (*from_float)(float);

  int bias() const { return (1 << (exponent - 1)) - 1; }
};
constexpr Format kHalf{DType::kFloat16, 5, 10, float_from_float16, float16_from_float};
constexpr Format kBrain{DType::kBfloat16, 8, 7, float_from_bfloat16, bfloat16_from_float};

double decode(const Format& f, unsigned bits) {
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = int(bits >> f.fraction) & ((1 << f.exponent) - 1);
  const int fraction = int(bits) & ((1 << f.fraction) - 1);
  if (exponent == (1 << f.exponent) - 1)
    return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - f.bias() - f.fraction);
  return sign * std::ldexp(fraction + (1 << f.fraction), exponent - f.bias() - f.fraction);
}

// The nearest number of the format, ties to even, computed by rounding a quotient in double.
double nearest(const Format& f, double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const int lowest = 1 - f.bias();  // exponent of the smallest normal number
  const int step = std::max(std::ilogb(x), lowest) - f.fraction;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
  return std::abs(rounded) >= std::ldexp(1, f.bias() + 1) ? std::copysign(INFINITY, x) : rounded;
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

class SixteenBits : public testing::TestWithParam<Format> {};

TEST_P(SixteenBits, EveryValueDecodes) {
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    ASSERT_PRED2(same, double(GetParam().to_float(std::uint16_t(bits))), decode(GetParam(), bits))
        << std::hex << bits;
}

TEST_P(SixteenBits, EveryValueSurvivesTheRoundTrip) {
  const Format& f = GetParam();
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const std::uint16_t back = f.from_float(f.to_float(std::uint16_t(bits)));
    if (std::isnan(decode(f, bits)))
      ASSERT_TRUE(std::isnan(decode(f, back)) && back >> 15 == bits >> 15) << std::hex << bits;
    else
      ASSERT_EQ(back, bits) << std::hex << bits;
  }
}

// Between two neighbours: both, the middle, and the floats beside each of them.
TEST_P(SixteenBits, EveryNeighbourhoodRoundsToNearestEven) {
  const Format& f = GetParam();
  for (unsigned bits = 0; std::isfinite(decode(f, bits)); ++bits) {
    const double low = decode(f, bits);
    const double high =
        std::isinf(decode(f, bits + 1)) ? std::ldexp(1, f.bias() + 1) : decode(f, bits + 1);
    const auto middle = float((low + high) / 2);
    for (const float x : {float(low), std::nextafter(float(low), INFINITY),
                          std::nextafter(middle, 0.f), middle, std::nextafter(middle, INFINITY)})
      for (const float signed_x : {x, -x})
        ASSERT_PRED2(same, double(f.to_float(f.from_float(signed_x))), nearest(f, signed_x))
            << signed_x;
  }
}

TEST_P(SixteenBits, AnyFloatRoundsToNearestEven) {
  const Format& f = GetParam();
  for (std::uint32_t n = 0; n < 250'000; ++n)
    for (const std::uint32_t bits : philox({n, 0, 0, 0}, philox_key(1))) {
      const auto x = std::bit_cast<float>(bits);
      ASSERT_PRED2(same, double(f.to_float(f.from_float(x))), std::isnan(x) ? NAN : nearest(f, x))
          << x;
    }
}

// A double is rounded once: through float32 to nearest, it could be rounded twice.
TEST_P(SixteenBits, DoublesAreRoundedOnce) {
  const Format& f = GetParam();
  for (unsigned bits = 0; std::isfinite(decode(f, bits + 1)); ++bits) {
    const double middle = (decode(f, bits) + decode(f, bits + 1)) / 2;
    for (const double x : {middle, std::nextafter(middle, 0.), std::nextafter(middle, INFINITY)})
      for (const double signed_x : {x, -x}) {
        std::uint16_t element = 0;
        store_element(f.dtype, &element, signed_x);
        ASSERT_PRED2(same, load_element(f.dtype, &element), nearest(f, signed_x)) << signed_x;
      }
  }
}

TEST_P(SixteenBits, DoublesOfAnySizeAreRoundedOnce) {
  const Format& f = GetParam();
  for (std::uint32_t n = 0; n < 250'000; ++n) {
    const auto w = philox({n, 0, 0, 0}, philox_key(2));
    // The bits below the 16 that stay are nearly those of a tie.
    const int exponent = int(w[2] % 320) - 170;
    const double x = std::ldexp(double(w[0] >> 8 | 1u << 24), exponent) +
                     std::ldexp(double(w[1] % 3) - 1, exponent - 20);
    std::uint16_t element = 0;
    store_element(f.dtype, &element, x);
    ASSERT_PRED2(same, load_element(f.dtype, &element), nearest(f, x)) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtype, SixteenBits, testing::Values(kHalf, kBrain),
                         [](const auto& about) { return std::string(name_of(about.param.dtype)); });

TEST(Dtype, Float16AtTheEdges) {
  EXPECT_EQ(float16_from_float(65504), 0x7bff);
  EXPECT_EQ(float16_from_float(std::nextafter(65520.f, 0.f)), 0x7bff);
  EXPECT_EQ(float16_from_float(65520), 0x7c00);
  EXPECT_EQ(float16_from_float(-65520), 0xfc00);
  EXPECT_EQ(float16_from_float(0x1p-24f), 0x0001);
  EXPECT_EQ(float16_from_float(0x1p-25f), 0x0000);  // half of the smallest: to even
  EXPECT_EQ(float16_from_float(std::nextafter(0x1p-25f, 1.f)), 0x0001);
  EXPECT_EQ(float16_from_float(0x3p-25f), 0x0002);
  EXPECT_EQ(float16_from_float(-0.f), 0x8000);
  EXPECT_EQ(float16_from_float(std::numeric_limits<float>::denorm_min()), 0);
  static_assert(float16_from_float(1) == 0x3c00 && float_from_float16(0x3c00) == 1);
}

TEST(Dtype, Bfloat16AtTheEdges) {
  const float largest = float_from_bfloat16(0x7f7f);
  EXPECT_EQ(bfloat16_from_float(largest), 0x7f7f);
  EXPECT_EQ(bfloat16_from_float(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bfloat16_from_float(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f);
  EXPECT_EQ(bfloat16_from_float(std::bit_cast<float>(0x7f7f8000u)), 0x7f80);  // tie to even
  static_assert(bfloat16_from_float(1) == 0x3f80 && float_from_bfloat16(0x3f80) == 1);
}

// A NaN whose upper half alone would read as infinity.
TEST(Dtype, NaNStaysNaN) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7fc00000u}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from_float(nan)))) << bits;
    EXPECT_TRUE(std::isnan(float_from_float16(float16_from_float(nan)))) << bits;
  }
  for (const DType t : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
    double element = 0;
    store_element(t, &element, NAN);
    EXPECT_TRUE(std::isnan(load_element(t, &element))) << name_of(t);
  }
}

TEST(Dtype, DoublesBeyondARangeBecomeInfinite) {
  for (const DType t : {DType::kFloat16, DType::kBfloat16, DType::kFloat32}) {
    double element = 0;
    store_element(t, &element, -1e300);
    EXPECT_EQ(load_element(t, &element), -INFINITY) << name_of(t);
    store_element(t, &element, 1e-300);
    EXPECT_EQ(load_element(t, &element), 0) << name_of(t);
  }
}

TEST(Dtype, IntegersAndBooleansLoad) {
  const std::int32_t i32 = -7;
  const std::int64_t i64 = std::int64_t{1} << 40;
  const std::uint8_t bytes[] = {0, 1, 255};
  EXPECT_EQ(load_element(DType::kInt32, &i32), -7);
  EXPECT_EQ(load_element(DType::kInt64, &i64), 0x1p40);
  for (const DType t : {DType::kUint8, DType::kBool}) {
    EXPECT_EQ(load_element(t, &bytes[0]), 0);
    EXPECT_EQ(load_element(t, &bytes[1]), 1);
    EXPECT_EQ(load_element(t, &bytes[2]), 1);
  }
}

TEST(Dtype, ElementsNeedNoAlignment) {
  alignas(8) char memory[16] = {};
  store_element(DType::kFloat64, memory + 1, 1.25);
  EXPECT_EQ(load_element(DType::kFloat64, memory + 1), 1.25);
}

TEST(Dtype, NamesAndSizes) {
  EXPECT_EQ(size_of(DType::kInt64), 8);
  EXPECT_EQ(size_of(DType::kBfloat16), 2);
  EXPECT_EQ(size_of(DType::kBool), 1);
  EXPECT_EQ(name_of(DType::kBfloat16), "bfloat16");
  EXPECT_EQ(name_of(DType(0x0402)), "unknown");
  EXPECT_FALSE(is_known(DType(0)));
  for (const DTypeRow& row : kDTypes) {
    EXPECT_TRUE(is_known(row.dtype));
    EXPECT_EQ(is_float(row.dtype), row.name.find("float") != row.name.npos) << row.name;
  }
}

}  // namespace
}  // namespace tessera::core
