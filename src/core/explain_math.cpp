#include "core/explain_math.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::core {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// ln 2 in two parts; n times the first is exact for |n| < 2^11, since its last 21 bits are 0.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2E = 0x1.71547652b82fep0;

// 2^n for a normal result.
double power_of_two(std::int64_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

}  // namespace

double exact_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return kInf;
  if (x < -745.14) return 0;
  // exp(x) = 2^n exp(r) with |r| <= ln(2) / 2. The Taylor series ends below 1e-17 of the result.
  const double n = std::floor(x * kLog2E + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double series = 1;
  for (int k = 13; k >= 2; --k) series = 1 + r * series / k;
  const double power = 1 + r * series;
  // In two factors, so that neither overflows and subnormal results round once.
  const auto whole = static_cast<std::int64_t>(n), half = whole / 2;
  return power * power_of_two(half) * power_of_two(whole - half);
}

double exact_log(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return -kInf;
  if (x == kInf) return kInf;
  if (x < 0x1p-1022) return exact_log(x * 0x1p54) - 54 * (kLn2High + kLn2Low);
  // x = 2^n y with y in [sqrt(1/2), sqrt(2)), and log y = 2 artanh(s), s = (y - 1) / (y + 1).
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto n = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double y = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (y > 0x1.6a09e667f3bcdp0) {
    y /= 2;
    n += 1;
  }
  const double s = (y - 1) / (y + 1), square = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = square * (series + 1. / k);
  // Small to large: the leading term n ln 2 is exact.
  return n * kLn2High + (n * kLn2Low + 2 * s * series + 2 * s);
}

}  // namespace tessera::core
