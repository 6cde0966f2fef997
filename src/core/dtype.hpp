// Element types: names, sizes and conversions, all of them to nearest even.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tessera::core {

// DLPack's numbers: code | bits << 8. The same values as tessera_dtype.
enum class DType : std::uint32_t {
  kInt32 = 0x2000,
  kInt64 = 0x4000,
  kUint8 = 0x0801,
  kBool = 0x0806,
  kFloat16 = 0x1002,
  kFloat32 = 0x2002,
  kFloat64 = 0x4002,
  kBfloat16 = 0x1004,
};

struct DTypeRow {
  DType dtype;
  std::string_view name, short_name;
};
inline constexpr DTypeRow kDTypes[] = {
    {DType::kInt32, "int32", "i32"},     {DType::kInt64, "int64", "i64"},
    {DType::kUint8, "uint8", "u8"},      {DType::kBool, "bool", "bool"},
    {DType::kFloat16, "float16", "f16"}, {DType::kFloat32, "float32", "f32"},
    {DType::kFloat64, "float64", "f64"}, {DType::kBfloat16, "bfloat16", "bf16"},
};

constexpr std::int64_t size_of(DType t) { return (std::int64_t(t) >> 8) / 8; }

// "unknown" where the number is none of ours.
constexpr std::string_view name_of(DType t) {
  for (const DTypeRow& row : kDTypes)
    if (row.dtype == t) return row.name;
  return "unknown";
}

constexpr bool is_known(DType t) { return name_of(t) != "unknown"; }

constexpr bool is_float(DType t) {
  return t == DType::kFloat16 || t == DType::kFloat32 || t == DType::kFloat64 ||
         t == DType::kBfloat16;
}

// The bits of a 16-bit element.
struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

// ---- bfloat16: the upper half of a float32 ----

constexpr float float_from_bfloat16(std::uint16_t x) {
  return std::bit_cast<float>(std::uint32_t{x} << 16);
}

constexpr std::uint16_t bfloat16_from_float(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  if (nan) return std::uint16_t(bits >> 16 | 0x40u);  // rounding could carry a NaN to infinity
  return std::uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// ---- float16: 5 bits of exponent, 10 of fraction ----

constexpr float float_from_float16(std::uint16_t x) {
  const std::uint32_t sign = std::uint32_t(x & 0x8000u) << 16, rest = x & 0x7fffu;
  if (rest >= 0x7c00u)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // As a float32 with the exponent 112 too low: the product is exact, also for subnormals.
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

constexpr std::uint16_t float16_from_float(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = std::uint16_t(bits >> 16 & 0x8000u);
  const std::uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return std::uint16_t(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
  if (rest >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);  // 65520 and more round to inf
  if (rest < 0x38800000u) {  // below 2^-14: the sum with 1/2 rounds to a multiple of 2^-24
    const float sum = std::bit_cast<float>(rest) + 0.5f;
    return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000u));
  }
  const std::uint32_t rebased = rest - 0x38000000u;  // exponent bias 127 -> 15
  return std::uint16_t(sign | ((rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13));
}

// ---- Elements in memory ----

template <class T> T read_as(const void* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// The element at `from` as a double; integers and booleans too.
inline double load_element(DType t, const void* from) {
  switch (t) {
    case DType::kFloat16: return double(float_from_float16(read_as<std::uint16_t>(from)));
    case DType::kBfloat16: return double(float_from_bfloat16(read_as<std::uint16_t>(from)));
    case DType::kFloat32: return double(read_as<float>(from));
    case DType::kFloat64: return read_as<double>(from);
    case DType::kInt32: return double(read_as<std::int32_t>(from));
    case DType::kInt64: return double(read_as<std::int64_t>(from));
    case DType::kUint8:
    case DType::kBool: return read_as<std::uint8_t>(from) != 0 ? 1. : 0.;
  }
  return NAN;
}

// A float32 that rounds to 16 bits as x itself would: to odd, so that no half is made or lost.
inline float round_to_odd(double x) {
  const auto nearest = float(x);
  if (double(nearest) == x || std::isnan(x) || std::isinf(nearest)) return nearest;
  const bool above = std::abs(double(nearest)) > std::abs(x);
  const auto bits = std::bit_cast<std::uint32_t>(nearest) - (above ? 1u : 0u);  // toward 0
  return std::bit_cast<float>(bits | 1u);
}

// Rounds x to an element of floating type; others are left alone.
inline void store_element(DType t, void* to, double x) {
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (t) {
    case DType::kFloat16: put(float16_from_float(round_to_odd(x))); break;
    case DType::kBfloat16: put(bfloat16_from_float(round_to_odd(x))); break;
    case DType::kFloat32: put(float(x)); break;
    case DType::kFloat64: put(x); break;
    default: break;
  }
}

}  // namespace tessera::core
