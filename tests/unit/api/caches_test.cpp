// Merging, rotating and appending through the C++ face: what the results must be.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "core/random.hpp"
#include "support/array.hpp"
#include "support/compare.hpp"
#include "tessera/cache.hpp"

namespace tessera::test {
namespace {

constexpr Index4 kRows{2, 3, 4, 5};       // [B, L, H, D]
constexpr Index4 kRowsOfLse{2, 4, 3, 1};  // [B, H, L]

Array normals(std::uint64_t seed, DType dtype, const Index4& shape,
              Layout layout = Layout::kDense) {
  core::Draws draws(seed);
  Array a(dtype, shape, layout);
  a.fill([&](const Index4&) { return draws.normal(); });
  return a;
}

Array integers(const std::vector<std::int64_t>& x, const Index4& shape,
               DType dtype = DType::kInt32) {
  Array a(dtype, shape);
  a.fill([&](const Index4& i) { return double(x[std::size_t(dense_index(shape, i))]); });
  return a;
}

const tessera::Context& context() {
  static const tessera::Context one{{.threads = 1}};
  return one;
}

Tensor view(const Array& a) { return a.abi(); }

// ---- Merge ----

struct Piece {
  Array out, lse;

  State state() const { return {view(out), view(lse)}; }
};

Piece piece(std::uint64_t seed, Layout layout = Layout::kDense) {
  Piece p{normals(seed, DType::kFloat32, kRows, layout),
          normals(seed + 1000, DType::kFloat32, kRowsOfLse)};
  p.lse.fill([&](const Index4& i) { return 3 * p.lse.at(i[0], i[1], i[2]); });
  return p;
}

// Of keys that were not seen: both infinities say so, and out may hold anything.
Piece nothing(double lse) {
  Piece p = piece(99);
  p.out.fill([](const Index4&) { return NAN; });
  p.lse.fill([&](const Index4&) { return lse; });
  return p;
}

Piece merged(std::initializer_list<const Piece*> pieces, DType dtype = DType::kFloat32) {
  Piece result{Array(dtype, kRows, Layout::kSpread), Array(DType::kFloat32, kRowsOfLse)};
  std::vector<State> states;
  for (const Piece* p : pieces) states.push_back(p->state());
  merge(context(), result.state(), states);
  EXPECT_TRUE(result.out.surroundings_intact());
  return result;
}

void expect_same_bits(const Piece& a, const Piece& b) {
  EXPECT_TRUE(same_bits(a.out, b.out));
  EXPECT_TRUE(same_bits(a.lse, b.lse));
}

// A merge rounds once to float32; merging twice rounds twice.
void expect_near(const Piece& a, const Piece& b) {
  constexpr double kRounding = 0x1p-22;
  const auto expect = [](const Array& x, const Array& y) {
    x.for_each([&](const Index4& i) {
      const double want = y.at(i[0], i[1], i[2], i[3]);
      EXPECT_NEAR(x.at(i[0], i[1], i[2], i[3]), want, kRounding * std::max(1., std::abs(want)) * 4);
    });
  };
  expect(a.out, b.out);
  expect(a.lse, b.lse);
}

TEST(Merge, TwoKeysByHand) {
  Piece a = piece(1), b = piece(2);
  a.lse.fill([](const Index4&) { return std::log(1.); });
  b.lse.fill([](const Index4&) { return std::log(3.); });
  const Piece both = merged({&a, &b});
  both.out.for_each([&](const Index4& i) {
    const auto [x, y, z, w] = i;
    EXPECT_NEAR(both.out.at(x, y, z, w), a.out.at(x, y, z, w) / 4 + b.out.at(x, y, z, w) * 3 / 4,
                1e-6);
  });
  both.lse.for_each(
      [&](const Index4& i) { EXPECT_NEAR(both.lse.at(i[0], i[1], i[2]), std::log(4.), 1e-6); });
}

TEST(Merge, TheEmptyStateIsItsIdentityToTheBit) {
  const Piece a = piece(3, Layout::kReversed), none = nothing(-INFINITY), other = nothing(INFINITY);
  expect_same_bits(merged({&a}), a);
  expect_same_bits(merged({&a, &none}), a);
  expect_same_bits(merged({&none, &other, &a, &other}), a);
}

TEST(Merge, NothingMergesToNothing) {
  const Piece none = nothing(-INFINITY), other = nothing(INFINITY);
  for (const Piece& p : {merged({}), merged({&none}), merged({&other, &none})}) {
    p.out.for_each([&](const Index4& i) { EXPECT_EQ(p.out.at(i[0], i[1], i[2], i[3]), 0); });
    p.lse.for_each([&](const Index4& i) { EXPECT_EQ(p.lse.at(i[0], i[1], i[2]), -INFINITY); });
  }
}

TEST(Merge, OrderAndBracketsDoNotMatter) {
  for (std::uint64_t seed = 10; seed < 20; ++seed) {
    const Piece a = piece(seed), b = piece(seed + 100), c = piece(seed + 200);
    const Piece all = merged({&a, &b, &c}), ab = merged({&a, &b}), bc = merged({&b, &c});
    expect_near(merged({&c, &a, &b}), all);
    expect_near(merged({&ab, &c}), all);
    expect_near(merged({&a, &bc}), all);
  }
}

TEST(Merge, SixteenBitsAreTheSameSumRoundedOnce) {
  const Piece a = piece(30), b = piece(31), wide = merged({&a, &b});
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    const Piece narrow = merged({&a, &b}, dtype);
    narrow.out.for_each([&](const Index4& i) {
      const double want = wide.out.at(i[0], i[1], i[2], i[3]);
      EXPECT_NEAR(narrow.out.at(i[0], i[1], i[2], i[3]), want,
                  std::abs(want) * (dtype == DType::kFloat16 ? 0x1.01p-11 : 0x1.01p-8) + 0x1p-25);
    });
    EXPECT_TRUE(same_bits(narrow.lse, wide.lse));
  }
}

TEST(Merge, IntoOneOfTheStates) {
  const Piece a = piece(40), b = piece(41), apart = merged({&a, &b});
  Piece first = a, second = b;
  const State states[] = {first.state(), second.state()};
  merge(context(), first.state(), states);
  expect_same_bits(first, apart);
}

TEST(Merge, ANaNStaysInItsRow) {
  const Piece a = piece(50);
  Piece b = piece(51), c = piece(52);
  b.lse.set({1, 2, 0, 0}, NAN);
  c.out.set({0, 1, 3, 2}, NAN);
  const Piece all = merged({&a, &b, &c});
  all.out.for_each([&](const Index4& i) {
    const bool bad = (i[0] == 1 && i[2] == 2 && i[1] == 0) || i == Index4{0, 1, 3, 2};
    EXPECT_EQ(std::isnan(all.out.at(i[0], i[1], i[2], i[3])), bad);
  });
  EXPECT_TRUE(std::isnan(all.lse.at(1, 2, 0)));
}

// ---- Rotate ----

constexpr std::int64_t kPositions = 40;

// The usual tables: angle = position / 100^(c / pairs).
struct Tables {
  Array cos, sin;

  explicit Tables(std::int64_t pairs, DType dtype = DType::kFloat32)
      : cos(dtype, {kPositions, pairs, 1, 1}), sin(dtype, {kPositions, pairs, 1, 1}) {
    const auto angle = [pairs](const Index4& i) {
      return double(i[0]) * std::pow(100., -double(i[1]) / double(pairs));
    };
    cos.fill([&](const Index4& i) { return std::cos(angle(i)); });
    sin.fill([&](const Index4& i) { return std::sin(angle(i)); });
  }
  Rotary rotary(tessera_rotary_layout layout = TESSERA_ROTARY_HALVES) const {
    return {view(cos), view(sin), layout};
  }
};

Array rotated(const Array& x, const Rotary& rotary, const Positions& at = {}) {
  Array out(x.dtype(), x.shape(), Layout::kHeadsFirst);
  rotate(context(), view(out), view(x), rotary, at);
  EXPECT_TRUE(out.surroundings_intact());
  return out;
}

double product(const Array& a, const Array& b, const Index4& i) {
  double sum = 0;
  for (std::int64_t d = 0; d < a.shape()[3]; ++d)
    sum += a.at(i[0], i[1], i[2], d) * b.at(i[0], i[1], i[2], d);
  return sum;
}

TEST(Rotate, PreservesNorms) {
  const Array x = normals(60, DType::kFloat32, {2, 5, 3, 8});
  const Tables tables(4);
  for (const auto layout : {TESSERA_ROTARY_HALVES, TESSERA_ROTARY_INTERLEAVED}) {
    const Array y = rotated(x, tables.rotary(layout));
    for (std::int64_t i = 0; i < 5; ++i)
      EXPECT_NEAR(product(y, y, {1, i, 2, 0}), product(x, x, {1, i, 2, 0}), 1e-5);
  }
}

TEST(Rotate, ProductsDependOnTheDifferenceOfPositions) {
  const Array q = normals(61, DType::kFloat32, {1, 1, 2, 8});
  const Array k = normals(62, DType::kFloat32, {1, 1, 2, 8});
  const Tables tables(4);
  const auto at = [](const Array& offset) { return Positions{.offsets = view(offset)}; };
  const auto score = [&](std::int64_t i, std::int64_t j) {
    const Array pi = integers({i}, {1, 1, 1, 1}), pj = integers({j}, {1, 1, 1, 1}, DType::kInt64);
    return product(rotated(q, tables.rotary(), at(pi)), rotated(k, tables.rotary(), at(pj)),
                   {0, 0, 1, 0});
  };
  for (std::int64_t shift = 0; shift < 20; ++shift) {
    EXPECT_NEAR(score(7 + shift, 3 + shift), score(7, 3), 2e-5);
    EXPECT_NEAR(score(2 + shift, 9 + shift), score(2, 9), 2e-5);
  }
  EXPECT_GT(std::abs(score(7, 3) - score(7, 4)), 1e-3);
}

TEST(Rotate, LayoutsAgreeAfterPermutation) {
  const Array halves = normals(63, DType::kFloat32, {2, 4, 3, 11});
  const auto moved = [](const Array& x) {  // element c or c + 4 of halves is 2c or 2c + 1 of pairs
    Array y(DType::kFloat32, x.shape());
    x.for_each([&](const Index4& i) {
      const std::int64_t d = i[3] < 4 ? 2 * i[3] : i[3] < 8 ? 2 * (i[3] - 4) + 1 : i[3];
      y.set({i[0], i[1], i[2], d}, x.at(i[0], i[1], i[2], i[3]));
    });
    return y;
  };
  const Tables tables(4);
  EXPECT_TRUE(same_bits(moved(rotated(halves, tables.rotary())),
                        rotated(moved(halves), tables.rotary(TESSERA_ROTARY_INTERLEAVED))));
}

TEST(Rotate, OffsetsArePositionsAndTheRestOfAHeadIsCopied) {
  const Array x = normals(64, DType::kFloat32, {2, 3, 2, 7}, Layout::kTransposed);
  const Tables tables(2);
  const Array offsets = integers({5, 0}, {2, 1, 1, 1});
  const Array positions = integers({5, 6, 7, 0, 1, 2}, {2, 3, 1, 1}, DType::kInt64);
  const Array y = rotated(x, tables.rotary(), {.offsets = view(offsets)});
  EXPECT_TRUE(same_bits(y, rotated(x, tables.rotary(), {.positions = view(positions)})));
  y.for_each([&](const Index4& i) {
    if (i[3] < 4 && (i[0] == 0 || i[1] > 0)) return;  // the last is at position 0
    EXPECT_EQ(y.at(i[0], i[1], i[2], i[3]), x.at(i[0], i[1], i[2], i[3]));
  });
}

TEST(Rotate, InPlaceAndInSixteenBits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    Array x = normals(65, dtype, {1, 6, 2, 8}, Layout::kPadded);
    const Tables tables(4), narrow(4, dtype);
    const Array apart = rotated(x, tables.rotary());
    const Array wide = rotated(x.converted(DType::kFloat32), tables.rotary());
    EXPECT_TRUE(same_bits(apart, wide.converted(dtype)));
    const Array table = rotated(x, narrow.rotary());
    rotate(context(), view(x), view(x), narrow.rotary());
    EXPECT_TRUE(same_bits(x, table));
  }
}

TEST(Rotate, NothingIsFine) {
  const Tables tables(4);
  Array x(DType::kFloat32, {0, 3, 2, 8});
  rotate(context(), view(x), view(x), tables.rotary());
}

// ---- Append ----

// Room for 3 sequences of 6 keys, 2 heads, dims 4 and 3.
struct Cache {
  Array k, v;

  Cache(DType dtype, const Index4& shape, Layout layout = Layout::kDense)
      : k(normals(70, dtype, {shape[0], shape[1], 2, 4}, layout)),
        v(normals(71, dtype, {shape[0], shape[1], 2, 3})) {}
};

// New keys for two sequences.
struct Fresh {
  Array k, v, lengths;

  explicit Fresh(DType dtype, std::int64_t count = 2)
      : k(normals(72, dtype, {2, count, 2, 4}, Layout::kHeadsFirst)),
        v(normals(73, dtype, {2, count, 2, 3})),
        lengths(integers({3, 1}, {2, 1, 1, 1})) {}

  NewKeys into(const Cache& cache) const {
    return {.k = view(k),
            .v = view(v),
            .k_cache = view(cache.k),
            .v_cache = view(cache.v),
            .kv_lengths = view(lengths)};
  }
};

// The place of each new key: `row` of sequence b, at its length + i.
template <class Place>
void expect_appended(const Array& cache, const Array& before, const Array& fresh, Place place) {
  Array want = before;
  fresh.for_each([&](const Index4& i) {
    const auto [row, slot] = place(i[0], i[1]);
    want.set({row, slot, i[2], i[3]}, fresh.at(i[0], i[1], i[2], i[3]));
  });
  EXPECT_TRUE(same_bits(cache, want));
  EXPECT_TRUE(cache.surroundings_intact());
}

using Slot = std::pair<std::int64_t, std::int64_t>;

TEST(Append, PutsKeysBehindThoseOfADenseCache) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    const Fresh fresh(dtype);
    const Cache before(dtype, {3, 6, 0, 0}, Layout::kHeadsFirst);
    Cache cache = before;
    const Array rows = integers({2, 0}, {2, 1, 1, 1});
    NewKeys keys = fresh.into(cache);
    keys.cache_batch_idx = view(rows);
    append(context(), keys);
    const auto place = [](std::int64_t b, std::int64_t i) {
      return b == 0 ? Slot{2, 3 + i} : Slot{0, 1 + i};
    };
    expect_appended(cache.k, before.k, fresh.k, place);
    expect_appended(cache.v, before.v, fresh.v, place);
  }
}

TEST(Append, PutsKeysIntoPages) {
  const Fresh fresh(DType::kFloat32, 4);
  const Cache before(DType::kFloat32, {6, 3, 0, 0});
  Cache cache = before;
  const Array table = integers({4, 0, 3, 5, 1, -1}, {2, 3, 1, 1});
  NewKeys keys = fresh.into(cache);
  keys.block_table = view(table);
  append(context(), keys);
  const auto place = [&](std::int64_t b, std::int64_t i) {
    const std::int64_t j = (b == 0 ? 3 : 1) + i;
    return Slot{std::int64_t(table.at(b, j / 3)), j % 3};
  };
  expect_appended(cache.k, before.k, fresh.k, place);
  expect_appended(cache.v, before.v, fresh.v, place);
}

TEST(Append, RotatesKeysToTheirPlace) {
  const Fresh fresh(DType::kBfloat16);
  const Cache before(DType::kBfloat16, {2, 6, 0, 0});
  Cache cache = before;
  const Tables tables(2);
  NewKeys keys = fresh.into(cache);
  keys.rotary = tables.rotary(TESSERA_ROTARY_INTERLEAVED);
  append(context(), keys);
  const Array turned = rotated(fresh.k, keys.rotary, {.offsets = view(fresh.lengths)});
  const auto place = [](std::int64_t b, std::int64_t i) { return Slot{b, (b == 0 ? 3 : 1) + i}; };
  expect_appended(cache.k, before.k, turned, place);
  expect_appended(cache.v, before.v, fresh.v, place);
}

TEST(Append, NothingIsFine) {
  const Fresh fresh(DType::kFloat32, 0);
  const Cache before(DType::kFloat32, {2, 6, 0, 0});
  Cache cache = before;
  append(context(), fresh.into(cache));
  EXPECT_TRUE(same_bits(cache.k, before.k));
}

}  // namespace
}  // namespace tessera::test
