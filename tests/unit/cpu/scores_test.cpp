#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "unit/cpu/words.hpp"

namespace tessera::test {
namespace {

using core::DType;
using core::Problem;
using core::Range;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLog2E = 1.4426950408889634;

class Scores : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Scores, testing::ValuesIn(present_words()), target_name);

// ---- scan_bytes ----

Bytes scan_one_by_one(const std::uint8_t* from, std::int64_t stride, std::int64_t n) {
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < n; ++i) zeros += from[i * stride] == 0 ? 1 : 0;
  return zeros == 0 ? Bytes::kAll : zeros == n ? Bytes::kNone : Bytes::kSome;
}

// One byte that differs, at every place, for bytes that carries and borrows could confuse.
TEST_P(Scores, ScanSeesASingleByteAnywhere) {
  for (const auto& [usual, other] : {std::pair<int, int>{0, 1},
                                     {1, 0},
                                     {0, 0x80},
                                     {0x80, 0},
                                     {0xff, 0},
                                     {0, 0xff},
                                     {1, 0x80},
                                     {0x7f, 0}})
    for (const std::int64_t stride : {0, 1, 3, -1})
      for (std::int64_t n = 0; n <= 40; ++n)
        for (std::int64_t place = -1; place < n; ++place) {
          std::vector<std::uint8_t> bytes(200, std::uint8_t(usual));
          std::uint8_t* const first = bytes.data() + 60;
          if (place >= 0) first[place * stride] = std::uint8_t(other);
          ASSERT_EQ(w.scan_bytes(first, stride, n), scan_one_by_one(first, stride, n))
              << usual << ' ' << other << ' ' << stride << ' ' << n << ' ' << place;
        }
}

TEST_P(Scores, ScanOfRandomBytes) {
  core::Draws draws(3);
  for (int round = 0; round < 20'000; ++round) {
    std::uint8_t bytes[24];
    for (std::uint8_t& b : bytes)
      b = draws.chance(0.1) ? std::uint8_t(draws.between(0, 2))
                            : std::uint8_t(draws.between(1, 255));
    const std::int64_t first = draws.between(0, 7), n = draws.between(0, 16);
    ASSERT_EQ(w.scan_bytes(bytes + first, 1, n), scan_one_by_one(bytes + first, 1, n));
  }
}

// Bytes beyond the last are not looked at.
TEST_P(Scores, ScanStopsAtTheEnd) {
  for (std::int64_t n = 1; n <= 40; ++n) {
    std::vector<std::uint8_t> bytes(std::size_t(n) + 16, 0);
    std::fill_n(bytes.begin() + 8, n, std::uint8_t{1});
    EXPECT_EQ(w.scan_bytes(bytes.data() + 8, 1, n), Bytes::kAll) << n;
  }
}

// ---- find_runs ----

TEST_P(Scores, RunsAreTheKeysThatSomeLaneSees) {
  core::Draws draws(4);
  for (int round = 0; round < 500; ++round) {
    const int halves = int(draws.between(1, 2));
    const Range keys{draws.between(0, 50) + 96, 0};
    const std::int64_t n = draws.between(0, 96);
    const double open = double(draws.between(0, 10)) / 10;
    std::vector<float> s(std::size_t(n * w.strip), -kInfinity);
    std::vector<bool> live(std::size_t(n) + 1);
    for (std::int64_t j = 0; j < n; ++j) {
      const bool second_half_alone = halves == 1 && draws.chance(0.3);
      const std::int64_t first = second_half_alone ? w.lanes : 0;
      if (!draws.chance(open)) continue;
      const std::int64_t last = second_half_alone ? w.strip - 1 : halves * w.lanes - 1;
      s[std::size_t(j * w.strip + draws.between(first, last))] =
          draws.chance(0.2) ? NAN : -std::numeric_limits<float>::max();
      live[std::size_t(j)] = !second_half_alone;
    }
    const std::vector<Range> runs = w.find_runs(halves, s.data(), {keys.begin, keys.begin + n});
    std::vector<Range> want;
    for (std::int64_t j = 0; j < n; ++j) {
      if (!live[std::size_t(j)]) continue;
      if (want.empty() || want.back().end != keys.begin + j)
        want.push_back({keys.begin + j, keys.begin + j});
      want.back().end = keys.begin + j + 1;
    }
    ASSERT_EQ(runs, want) << round;
  }
}

TEST_P(Scores, EverySecondKeyIsTheMostRuns) {
  for (const std::int64_t first : {0, 1}) {
    std::vector<float> s(std::size_t(96 * w.strip), -kInfinity);
    for (std::int64_t j = first; j < 96; j += 2) s[std::size_t(j * w.strip)] = 0;
    EXPECT_EQ(w.find_runs(2, s.data(), {0, 96}).size(), 48u);
  }
}

// ---- Modifiers ----

// A block of scores of head 1 of two, and everything that may change it.
struct Block {
  explicit Block(const Words& words, Range rows_of, Range keys_of)
      : w(words), rows(rows_of), keys(keys_of) {
    p.batch = 1, p.heads = 2, p.kv_heads = 1;
    p.queries = 200, p.keys = 300;
    s.resize(std::size_t(keys.size() * w.strip));
    for (float& x : s) x = float(4 * draws.normal());
  }

  void add_mask(double open) {
    mask.resize(2 * 200 * 300);
    for (std::uint8_t& x : mask) x = draws.chance(open) ? 1 : 0;
    p.mask = tensor(mask.data(), DType::kBool);
  }
  void add_bias() {
    bias.resize(2 * 200 * 300);
    for (float& x : bias) x = draws.chance(0.1) ? -kInfinity : float(draws.normal());
    p.bias = tensor(bias.data(), DType::kFloat32);
  }
  void add_alibi() {
    p.alibi.data = slopes;
    p.alibi.shape = {1, 2, 1, 1};
    p.alibi.stride = {0, 1, 1, 1};
  }
  static core::Tensor tensor(void* data, DType dtype) {
    core::Tensor t;
    t.data = data, t.dtype = dtype;
    t.shape = {1, 2, 200, 300}, t.stride = {120'000, 60'000, 300, 1};
    return t;
  }

  // The contract: soft cap, ALiBi, bias, then who is hidden; in units of log2.
  double define(double x, std::int64_t i, std::int64_t j) const {
    const core::Band band{p.left, p.right, p.offset};
    if (!band.sees(i, j) || (p.mask.present() && p.mask.load(0, 1, i, j) == 0)) return -INFINITY;
    const double cap = double(p.softcap) * kLog2E;
    if (cap != 0) x = cap * std::tanh(x / cap);
    if (p.alibi.present()) x -= p.alibi.load(0, 1) * kLog2E * std::abs(double(i + p.offset - j));
    return p.bias.present() ? x + p.bias.load(0, 1, i, j) * kLog2E : x;
  }

  void check() const {
    std::vector<float> got = s;
    w.modify(p, 1, rows, keys, got.data());
    for (std::int64_t j = keys.begin; j < keys.end; ++j)
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const auto at = std::size_t((j - keys.begin) * w.strip + i - rows.begin);
        const double want = define(double(s[at]), i, j);
        if (std::isinf(want))
          ASSERT_EQ(got[at], -kInfinity) << i << ' ' << j;
        else
          ASSERT_NEAR(got[at], want, 2e-6 * (8 + std::abs(want))) << i << ' ' << j;
      }
  }

  const Words& w;
  Range rows, keys;
  Problem p;
  core::Draws draws{5};
  std::vector<float> s, bias;
  std::vector<std::uint8_t> mask;
  float slopes[2] = {9.f, 0.25f};
};

TEST_P(Scores, EveryModifierWithEveryOther) {
  for (int options = 0; options < 32; ++options)
    for (const std::int64_t rows : {std::int64_t{1}, w.lanes, w.strip - 1, w.strip}) {
      Block block(w, {64, 64 + std::max<std::int64_t>(1, rows)}, {96 + options, 192 - options % 5});
      if (options & 1) block.p.softcap = 3;
      if (options & 2) block.add_alibi();
      if (options & 4) block.add_bias();
      if (options & 8) block.add_mask(0.8);
      if (options & 16) block.p.left = 30, block.p.right = 20, block.p.offset = 70;
      block.check();
    }
}

// Hiding is said once: NaN and infinities of a bias where a mask or the band hides have no effect.
TEST_P(Scores, WhatIsHiddenHasNoEffect) {
  Block block(w, {64, 64 + w.strip}, {96, 192});
  block.add_bias();
  block.add_mask(0.5);
  block.p.right = 60;
  for (std::int64_t i = 0; i < 200; ++i)
    for (std::int64_t j = 0; j < 300; ++j)
      if (block.p.mask.load(0, 1, i, j) == 0 || j > i + 60)
        block.bias[std::size_t(60'000 + i * 300 + j)] = (i + j) % 2 == 0 ? NAN : kInfinity;
  block.check();
}

// However low, a finite score stays visible; only -inf hides.
TEST_P(Scores, AFiniteBiasHidesNothing) {
  Block block(w, {64, 64 + w.strip}, {96, 192});
  block.add_bias();
  block.add_alibi();
  const float lowest = std::numeric_limits<float>::lowest();
  for (float& x : block.bias) x = x == -kInfinity ? x : lowest;
  std::vector<float> got = block.s;
  w.modify(block.p, 1, block.rows, block.keys, got.data());
  for (std::int64_t j = 96; j < 192; ++j)
    for (std::int64_t i = 64; i < 64 + w.strip; ++i) {
      const float bias = block.bias[std::size_t(60'000 + i * 300 + j)];
      const float x = got[std::size_t((j - 96) * w.strip + i - 64)];
      ASSERT_EQ(x == -kInfinity, bias == -kInfinity) << i << ' ' << j;
      ASSERT_LT(x, 0.9f * lowest);
    }
}

// A visible NaN stays one: in a score and in a bias.
TEST_P(Scores, NaNStays) {
  Block block(w, {64, 64 + w.strip}, {96, 192});
  block.add_bias();
  std::fill(block.bias.begin(), block.bias.end(), 0.5f);
  block.bias[60'000 + 64 * 300 + 100] = NAN;
  const auto from_bias = std::size_t(4 * w.strip), from_score = std::size_t(7 * w.strip + 1);
  block.s[from_score] = NAN;
  for (const float cap : {0.f, 3.f}) {
    block.p.softcap = cap;
    std::vector<float> got = block.s;
    w.modify(block.p, 1, block.rows, block.keys, got.data());
    for (std::size_t n = 0; n < got.size(); ++n)
      ASSERT_EQ(std::isnan(got[n]), n == from_bias || n == from_score) << n;
  }
}

// A tensor may say the same of all rows, of all keys, or lie transposed; alone and with the other.
TEST_P(Scores, MaskAndBiasWithAnyStrides) {
  constexpr core::Index4 usual{0, 60'000, 300, 1};
  const std::vector<core::Index4> all{usual,        {0, 300, 0, 1},      {0, 0, 1, 0},
                                      {0, 0, 0, 0}, {0, 60'000, 1, 200}, {0, 60'000, 600, 2}};
  Block block(w, {64, 63 + w.strip}, {96, 190});
  block.add_bias();
  block.add_mask(0.7);
  block.bias.resize(300'000, 0.5f);
  block.mask.resize(300'000, 1);
  const auto data = [&](bool wanted, auto& of) { return wanted ? of.data() : nullptr; };
  for (const core::Index4& bias : all)
    for (const core::Index4& mask : all)
      for (const auto& [biased, masked] : {std::pair{true, true}, {true, false}, {false, true}}) {
        block.p.bias.data = data(biased, block.bias);
        block.p.mask.data = data(masked, block.mask);
        block.p.bias.stride = bias;
        block.p.mask.stride = mask;
        block.check();
      }
}

// ---- scan of a block ----

TEST_P(Scores, AMaskIsScannedWithinItsBlockAlone) {
  const Range rows{10, 10 + w.strip}, keys{100, 190};
  for (const std::uint8_t usual : {std::uint8_t{0}, std::uint8_t{1}}) {
    const Bytes all = usual == 0 ? Bytes::kNone : Bytes::kAll;
    Block block(w, rows, keys);
    block.add_mask(usual);
    const auto at = [&](std::int64_t i, std::int64_t j) -> std::uint8_t& {
      return block.mask[std::size_t(60'000 + i * 300 + j)];
    };
    for (const std::int64_t i : {rows.begin - 1, rows.begin, rows.end - 1, rows.end})
      for (const std::int64_t j :
           {keys.begin - 1, keys.begin, keys.begin + 41, keys.end - 1, keys.end}) {
        at(i, j) ^= 1;
        const Bytes want = rows.contains(i) && keys.contains(j) ? Bytes::kSome : all;
        EXPECT_EQ(w.scan(block.p, 1, rows, keys), want) << i << ' ' << j;
        at(i, j) ^= 1;
      }
  }
}

TEST_P(Scores, RowsThatDisagreeAreSome) {
  Block block(w, {10, 10 + w.strip}, {100, 190});
  block.add_mask(0);
  std::fill_n(block.mask.begin() + 60'000 + 11 * 300, 300, std::uint8_t{1});
  EXPECT_EQ(w.scan(block.p, 1, block.rows, block.keys), Bytes::kSome);
  EXPECT_EQ(w.scan(block.p, 1, {11, 12}, block.keys), Bytes::kAll);
  EXPECT_EQ(w.scan(block.p, 1, {10, 11}, block.keys), Bytes::kNone);
  EXPECT_EQ(w.scan(block.p, 0, block.rows, block.keys), Bytes::kNone);
  block.p.mask.stride[2] = 0;  // one row for all of them
  EXPECT_EQ(w.scan(block.p, 1, block.rows, block.keys), Bytes::kNone);
}

}  // namespace
}  // namespace tessera::test
