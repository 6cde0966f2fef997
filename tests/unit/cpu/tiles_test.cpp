#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "unit/cpu/words.hpp"

namespace tessera::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

class Tiles : public OnEveryTarget {
 protected:
  std::vector<float> exp2(std::vector<float> x) const {
    w.exp2(x.data(), std::int64_t(x.size()));
    return x;
  }
  std::vector<float> tanh(std::vector<float> x) const {
    w.tanh(x.data(), std::int64_t(x.size()));
    return x;
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Tiles, testing::ValuesIn(present_words()), target_name);

// NaNs of both signs with every single bit of payload, and all of it.
std::vector<float> nans() {
  std::vector<float> all;
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (int bit = 0; bit < 23; ++bit)
      all.push_back(std::bit_cast<float>(sign | 0x7fc00000u | 1u << bit));
    all.push_back(std::bit_cast<float>(sign | 0x7fffffffu));
    all.push_back(std::bit_cast<float>(sign | 0x7f800001u));  // signalling
  }
  return all;
}

std::vector<float> grid(float low, float high, int steps) {
  std::vector<float> x;
  for (int i = 0; i <= steps; ++i)
    x.push_back(float(double(low) + (double(high) - double(low)) * i / steps));
  return x;
}

template <class Exact>
double worst_error(const std::vector<float>& x, const std::vector<float>& y, Exact exact) {
  long double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double want = exact(static_cast<long double>(x[i]));
    worst = std::max(worst, std::abs((y[i] - want) / want));
  }
  return double(worst);
}

// ---- exp2 ----

TEST_P(Tiles, Exp2IsExactAtItsEnds) {
  for (const float x : exp2({0.f, -0.f})) EXPECT_EQ(x, 1.f);
  for (const float x : exp2({-kInfinity, -3e38f, -1e5f, -200.f}))
    EXPECT_EQ(std::bit_cast<std::uint32_t>(x), 0u);
  for (int e = -126; e <= 0; ++e) EXPECT_EQ(exp2({float(e)})[0], std::ldexp(1.f, e)) << e;
}

TEST_P(Tiles, Exp2OfNaNIsNaN) {
  for (const float x : nans())
    EXPECT_TRUE(std::isnan(exp2({x})[0]))
        << std::hex << std::bit_cast<std::uint32_t>(x) << " gives " << exp2({x})[0];
}

TEST_P(Tiles, Exp2IsWithinItsError) {
  std::vector<float> x = grid(-126.f, 0.f, 400'000);
  for (const float y : grid(-1.f, 0.f, 200'000)) x.push_back(y);
  for (float y = -1e-3f; y < -1e-30f; y /= 1.01f) x.push_back(y);
  const auto exact = [](long double y) { return std::exp2(y); };
  EXPECT_LE(worst_error(x, exp2(x), exact), 1e-7);
}

// Where the result is no normal number a target may flush it or not.
TEST_P(Tiles, Exp2IsTinyBelowTheNormalNumbers) {
  for (const float y : exp2(grid(-300.f, -126.f, 20'000))) {
    ASSERT_GE(y, 0.f);
    ASSERT_LE(y, std::numeric_limits<float>::min());
  }
}

TEST_P(Tiles, Exp2GrowsAndNeverExceedsOne) {
  for (const auto& [low, high] : {std::pair{-126.f, 0.f}, {-1.f, 0.f}, {-1e-4f, 0.f}}) {
    const std::vector<float> y = exp2(grid(low, high, 50'000));
    // Neighbours whose true values round alike may differ by the error of one of them.
    for (std::size_t i = 1; i < y.size(); ++i) ASSERT_LE(y[i - 1], y[i] * (1 + 1.2e-7f)) << i;
    for (const float one : y) ASSERT_LE(one, 1.f);
  }
}

// ---- tanh ----

TEST_P(Tiles, TanhIsWithinItsError) {
  std::vector<float> x = grid(1e-4f, 20.f, 400'000);
  for (float y = 1.f; y > 1e-37f; y /= 1.001f) x.push_back(y);
  for (float y = 0.624f; y < 0.626f; y += 1e-6f) x.push_back(y);
  const auto exact = [](long double y) { return std::tanh(y); };
  EXPECT_LE(worst_error(x, tanh(x), exact), 2e-7);
}

TEST_P(Tiles, TanhIsOddAndSaturates) {
  std::vector<float> x = grid(0.f, 12.f, 20'000), minus = x;
  for (float& y : minus) y = -y;
  const std::vector<float> a = tanh(x), b = tanh(minus);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i], -b[i]) << x[i];
    ASSERT_LE(a[i], 1.f);
  }
  EXPECT_EQ(tanh({20.f, 1e4f, 3e38f, kInfinity}), std::vector<float>(4, 1.f));
  EXPECT_EQ(tanh({-20.f, -1e4f, -3e38f, -kInfinity}), std::vector<float>(4, -1.f));
}

TEST_P(Tiles, TanhOfTinyNumbersIsTheNumber) {
  const std::vector<float> tiny{0.f, kSmallest, 7 * kSmallest, 1e-40f, 1.2e-38f, 1e-20f, 1e-5f};
  EXPECT_EQ(tanh(tiny), tiny);
}

TEST_P(Tiles, TanhOfNaNIsNaN) {
  for (const float x : nans())
    EXPECT_TRUE(std::isnan(tanh({x})[0])) << std::hex << std::bit_cast<std::uint32_t>(x);
}

// ---- The two micro-kernels, on small whole numbers: every sum is exact in any order ----

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : draws_(seed) {}
  std::vector<float> row(std::int64_t n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& y : x) y = float(draws_.between(-9, 9));
    return x;
  }

 private:
  core::Draws draws_;
};

TEST_P(Tiles, MultiplyTransposedIsThePlainSum) {
  Numbers numbers(7);
  for (const std::int64_t dim : {0, 1, 2, 7, 16, 33, 127, 128, 129, 256, 257, 400}) {
    std::vector<std::vector<float>> keys;
    for (std::int64_t j = 0; j < w.key_tile; ++j) keys.push_back(numbers.row(dim));
    std::vector<const float*> k;
    for (const auto& key : keys) k.push_back(key.data());
    const std::vector<float> q = numbers.row(dim * w.strip);
    for (int halves = 1; halves <= 2; ++halves) {
      std::vector<float> s(std::size_t(w.key_tile * w.strip), 1234.f);
      w.multiply_transposed(halves, s.data(), k.data(), q.data(), dim);
      for (std::int64_t j = 0; j < w.key_tile; ++j)
        for (std::int64_t r = 0; r < w.strip; ++r) {
          float want = r < halves * w.lanes ? 0.f : 1234.f;
          for (std::int64_t i = 0; i < dim && r < halves * w.lanes; ++i)
            want += k[std::size_t(j)][i] * q[std::size_t(i * w.strip + r)];
          ASSERT_EQ(s[std::size_t(j * w.strip + r)], want) << dim << ' ' << j << ' ' << r;
        }
    }
  }
}

TEST_P(Tiles, RowTilesPartTheStrip) {
  EXPECT_EQ(w.row_tile_begin(0), 0);
  EXPECT_EQ(w.row_tile_begin(int(w.row_tiles)), w.strip);
  for (int tile = 0; tile < w.row_tiles; ++tile)
    EXPECT_LT(w.row_tile_begin(tile), w.row_tile_begin(tile + 1));
}

TEST_P(Tiles, AccumulateScalesAndAdds) {
  Numbers numbers(8);
  for (int tile = 0; tile < w.row_tiles; ++tile)
    for (const std::int64_t keys : {0, 1, 2, 5, 96}) {
      const std::int64_t rows = w.row_tile_begin(tile + 1) - w.row_tile_begin(tile);
      const std::int64_t stride = w.panel + 3;
      const std::vector<float> before = numbers.row(rows * w.panel), alpha = numbers.row(rows),
                               p = numbers.row(keys * w.strip + rows),
                               v = numbers.row(keys * stride + w.panel);
      std::vector<float> o = before;
      w.accumulate(tile, o.data(), alpha.data(), p.data(), {v.data(), stride, keys});
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < w.panel; ++c) {
          float want = alpha[std::size_t(r)] * before[std::size_t(r * w.panel + c)];
          for (std::int64_t j = 0; j < keys; ++j)
            want += p[std::size_t(j * w.strip + r)] * v[std::size_t(j * stride + c)];
          ASSERT_EQ(o[std::size_t(r * w.panel + c)], want) << tile << ' ' << keys << ' ' << r;
        }
    }
}

TEST_P(Tiles, HidesTheLanesOutsideOfTheBand) {
  const std::vector<float> x = Numbers(9).row(w.strip);
  std::vector<float> bounds = grid(-2.f, float(w.strip) + 1, int(w.strip) + 3);
  bounds.insert(bounds.end(), {-1e18f, 1e18f});
  for (const float low : bounds)
    for (const float high : bounds) {
      std::vector<float> y(x.size());
      w.hide_outside(y.data(), x.data(), low, high);
      for (std::size_t r = 0; r < x.size(); ++r)
        ASSERT_EQ(y[r], low <= float(r) && float(r) <= high ? x[r] : -kInfinity)
            << low << ' ' << high;
    }
}

}  // namespace
}  // namespace tessera::test
