// Bytes as a merge, a rotation or an append with any sizes, types, layouts and numbers, each beside
// its equation in double precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <span>
#include <vector>

#include "core/tolerance.hpp"
#include "support/array.hpp"
#include "support/backend.hpp"
#include "support/compare.hpp"
#include "support/seed.hpp"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
constexpr DType kIntegers[] = {DType::kInt32, DType::kInt64};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

tessera_context* context() { return reference().context; }

Layout any_layout(Dice& dice, bool written = false) {
  const Layout layout = dice.pick(kLayouts);
  return written && layout == Layout::kSharedByHeads ? Layout::kDense : layout;
}

double any_number(Dice& dice) {
  constexpr double kSpecial[] = {NAN, INFINITY, -INFINITY, 0, 700, -700, 60000, 1e-6};
  return dice.one_in(16) ? dice.pick(kSpecial) : double(dice.between(-4000, 4000)) / 1000;
}

Array any_array(Dice& dice, DType dtype, const Index4& shape, Layout layout) {
  Array a(dtype, shape, layout);
  a.fill([&](const Index4&) { return any_number(dice); });
  return a;
}

// Whether x is y to `error` and a rounding to its type.
bool near(DType dtype, double x, double y, double error) {
  const double want = std::isinf(core::rounded(dtype, y)) ? core::rounded(dtype, y) : y;
  if (!core::same_kind(x, want)) return false;
  return !std::isfinite(want) || std::abs(x - want) <= error + core::half_unit(dtype, want) * 1.001;
}

Index4 any_shape(Dice& dice) {
  const std::int64_t batch = dice.below(3), rows = dice.below(5), heads = dice.below(4);
  return {batch, rows, heads, dice.between(1, 9)};
}

// ---- Merge ----

struct Piece {
  Array out, lse;
};

// out_n weighs exp(lse_n - lse), which is positive even where double loses it; a state without keys
// is not looked at.
void check_merged_row(std::span<const Piece> pieces, const Piece& got, const Index4& bih) {
  const auto [b, i, h, dims] = bih;
  double top = -INFINITY, sum = 0;
  bool is_nan = false;
  std::vector<const Piece*> seen;
  for (const Piece& p : pieces) {
    const double lse = p.lse.at(b, h, i);
    is_nan = is_nan || std::isnan(lse);
    if (!std::isinf(lse)) seen.push_back(&p), top = std::max(top, lse);
  }
  for (const Piece* p : seen) sum += std::exp(p->lse.at(b, h, i) - top);
  const double lse = is_nan ? NAN : seen.empty() ? -INFINITY : top + std::log(sum);
  if (got.lse.present())
    require(near(DType::kFloat32, got.lse.at(b, h, i), lse, 1e-6 * std::abs(lse)),
            "lse of a merge");
  for (std::int64_t d = 0; d < dims; ++d) {
    double want = is_nan ? NAN : 0, size = 0;
    for (const Piece* p : seen) {
      const double out = p->out.at(b, i, h, d), weight = std::exp(p->lse.at(b, h, i) - lse);
      const double x = weight == 0 && std::isinf(out) ? out : weight * out;
      want += x, size += std::abs(x);
    }
    require(near(got.out.dtype(), got.out.at(b, i, h, d), want, 1e-6 * size), "out of a merge");
  }
}

void check_merge(Dice& dice) {
  const Index4 shape = any_shape(dice), rows{shape[0], shape[2], shape[1], 1};
  std::vector<Piece> pieces;
  for (std::int64_t n = dice.below(5); n > 0; --n)
    pieces.push_back({any_array(dice, DType::kFloat32, shape, any_layout(dice)),
                      any_array(dice, DType::kFloat32, rows, any_layout(dice))});
  Piece to{Array(dice.pick(kFloats), shape, any_layout(dice, true)), {}};
  if (!dice.one_in(4)) to.lse = Array(DType::kFloat32, rows, any_layout(dice, true));
  std::vector<tessera_state> states;
  for (const Piece& p : pieces) states.push_back({p.out.abi(), p.lse.abi()});
  tessera_merge_desc desc = tessera_merge_desc_default();
  desc.states = states.data();
  desc.count = states.size();
  desc.out = to.out.abi();
  desc.lse = to.lse.abi();
  require(tessera_merge(context(), &desc, nullptr) == TESSERA_OK, "a merge is done");
  require(to.out.surroundings_intact(), "a merge writes out alone");
  require(!to.lse.present() || to.lse.surroundings_intact(), "a merge writes lse alone");
  Array(DType::kBool, {shape[0], shape[1], shape[2], 1}).for_each([&](const Index4& i) {
    check_merged_row(pieces, to, {i[0], i[1], i[2], shape[3]});
  });
}

// ---- Rotate ----

constexpr std::int64_t kPositions = 12;

struct Tables {
  Array cos, sin;
  std::int64_t pairs = 0;
  std::uint32_t layout = TESSERA_ROTARY_HALVES;

  Tables(Dice& dice, DType dtype, std::int64_t dim) {
    if (dim < 2 || dice.one_in(4)) return;
    pairs = dice.between(1, dim / 2);
    layout = std::uint32_t(dice.below(2));
    const DType of = dice.one_in(2) ? DType::kFloat32 : dtype;
    cos = any_array(dice, of, {kPositions, pairs, 1, 1}, any_layout(dice));
    sin = any_array(dice, of, {kPositions, pairs, 1, 1}, any_layout(dice));
  }
  // Element d of a row at position p, whose elements x(d) gives.
  template <class X>
  void check(const X& x, std::int64_t p, std::int64_t d, double got, DType dtype) const {
    if (d >= 2 * pairs)
      return require(got == x(d) || (std::isnan(got) && std::isnan(x(d))), "the rest is copied");
    const bool halves = layout == TESSERA_ROTARY_HALVES;
    const std::int64_t pair = halves ? d % pairs : d / 2;
    const bool first = halves ? d < pairs : d % 2 == 0;
    const double a = x(halves ? pair : 2 * pair), b = x(halves ? pair + pairs : 2 * pair + 1);
    const double c = cos.at(p, pair), s = sin.at(p, pair);
    const double want = first ? a * c - b * s : a * s + b * c;
    require(
        near(dtype, got, want, 1e-6 * (std::abs(a) + std::abs(b)) * (std::abs(c) + std::abs(s))),
        "a pair is turned");
  }
};

Array any_integers(Dice& dice, const Index4& shape, std::int64_t most) {
  Array a(dice.pick(kIntegers), shape);
  a.fill([&](const Index4&) { return double(dice.between(0, most)); });
  return a;
}

void check_rotate(Dice& dice) {
  const Index4 shape = any_shape(dice);
  const DType dtype = dice.pick(kFloats);
  const Array x = any_array(dice, dtype, shape, any_layout(dice));
  const Tables tables(dice, dtype, shape[3]);
  if (tables.pairs == 0) return;
  Array out(dtype, shape, any_layout(dice, true));
  const std::int64_t by = dice.below(3);
  Array offsets, positions;
  if (by == 1) offsets = any_integers(dice, {shape[0], 1, 1, 1}, kPositions - 5);
  if (by == 2) positions = any_integers(dice, {shape[0], shape[1], 1, 1}, kPositions - 1);
  tessera_rotate_desc desc = tessera_rotate_desc_default();
  desc.layout = tables.layout;
  desc.x = x.abi(), desc.out = out.abi();
  desc.cos = tables.cos.abi(), desc.sin = tables.sin.abi();
  desc.offsets = offsets.abi(), desc.positions = positions.abi();
  require(tessera_rotate(context(), &desc, nullptr) == TESSERA_OK, "a rotation is done");
  require(out.surroundings_intact(), "a rotation writes out alone");
  out.for_each([&](const Index4& i) {
    const auto [b, row, h, d] = i;
    const std::int64_t p = by == 2   ? std::int64_t(positions.at(b, row))
                           : by == 1 ? std::int64_t(offsets.at(b)) + row
                                     : row;
    const auto element = [&](std::int64_t e) { return x.at(i[0], i[1], i[2], e); };
    tables.check(element, p, d, out.at(b, row, h, d), dtype);
  });
}

// ---- Append ----

struct Growth {
  std::int64_t batch, fresh, heads, dim, value_dim, size, before;
  DType dtype;
  Array lengths, rows, table;

  explicit Growth(Dice& dice)
      : batch(dice.below(4)),
        fresh(dice.below(4)),
        heads(dice.between(1, 2)),
        dim(dice.between(1, 6)),
        value_dim(dice.between(1, 5)),
        size(dice.between(1, 6)),
        before(dice.below(3)),
        dtype(dice.pick(kFloats)),
        lengths(any_integers(dice, {batch, 1, 1, 1}, 5)) {
    const std::int64_t kind = dice.below(3);
    const std::int64_t columns = dice.between(1, 3);
    if (kind == 1) rows = Array(DType::kInt32, {batch, 1, 1, 1});
    if (kind == 2) table = Array(DType::kInt32, {batch, columns, 1, 1});
    const auto number = [&](const Index4& i) { return double(before + i[0] * columns + i[1]); };
    if (kind == 1) rows.fill([&](const Index4& i) { return double(before + i[0]); });
    if (kind == 2) table.fill(number);
  }
  std::int64_t cache_rows() const {
    if (table.present()) return before + batch * table.shape()[1];
    return rows.present() ? before + batch : batch;
  }
  std::int64_t capacity() const { return size * (table.present() ? table.shape()[1] : 1); }
  bool fits() const {
    for (std::int64_t b = 0; b < batch; ++b)
      if (std::int64_t(lengths.at(b)) + fresh > capacity()) return false;
    return true;
  }
  // The row and the slot of new key i of sequence b.
  Index4 place(std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t d) const {
    const std::int64_t j = std::int64_t(lengths.at(b)) + i;
    if (table.present()) return {std::int64_t(table.at(b, j / size)), j % size, h, d};
    return {rows.present() ? std::int64_t(rows.at(b)) : b, j, h, d};
  }
};

double at(const Array& a, const Index4& i) { return a.at(i[0], i[1], i[2], i[3]); }

void check_append(Dice& dice) {
  const Growth g(dice);
  const auto array = [&](std::int64_t rows, std::int64_t size, std::int64_t dim, Layout layout) {
    return any_array(dice, g.dtype, {rows, size, g.heads, dim}, layout);
  };
  const Array k = array(g.batch, g.fresh, g.dim, any_layout(dice));
  const Array v = array(g.batch, g.fresh, g.value_dim, any_layout(dice));
  const Array k_before = array(g.cache_rows(), g.size, g.dim, any_layout(dice, true));
  const Array v_before = array(g.cache_rows(), g.size, g.value_dim, any_layout(dice, true));
  const Array k_cache = k_before, v_cache = v_before;
  const Tables tables(dice, g.dtype, g.dim);
  tessera_append_desc desc = tessera_append_desc_default();
  desc.k = k.abi(), desc.v = v.abi();
  desc.k_cache = k_cache.abi(), desc.v_cache = v_cache.abi();
  desc.kv_lengths = g.lengths.abi();
  desc.cache_batch_idx = g.rows.abi(), desc.block_table = g.table.abi();
  desc.layout = tables.layout;
  desc.cos = tables.cos.abi(), desc.sin = tables.sin.abi();
  const tessera_status status = tessera_append(context(), &desc, nullptr);
  const bool nothing = g.batch == 0 || g.fresh == 0, wanted = nothing || g.fits();
  require((status == TESSERA_OK) == wanted, "a cache takes what it has room for");
  require(k_cache.surroundings_intact() && v_cache.surroundings_intact(), "caches alone change");
  Array k_want = k_before, v_want = v_before;
  if (wanted && !nothing) {
    k.for_each([&](const Index4& i) {
      const Index4 there = g.place(i[0], i[1], i[2], i[3]);
      const double got = at(k_cache, there);
      const auto x = [&](std::int64_t d) { return k.at(i[0], i[1], i[2], d); };
      tables.check(x, std::int64_t(g.lengths.at(i[0])) + i[1], i[3], got, g.dtype);
      k_want.set(there, got);
    });
    v.for_each([&](const Index4& i) { v_want.set(g.place(i[0], i[1], i[2], i[3]), at(v, i)); });
  }
  require(bool(same_bits(k_cache, k_want)), "new keys alone are written");
  require(bool(same_bits(v_cache, v_want)), "new values alone are written");
}

}  // namespace
}  // namespace tessera::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::test;
  Dice dice(std::span(data, size));
  switch (dice.below(3)) {
    case 0: check_merge(dice); break;
    case 1: check_rotate(dice); break;
    default: check_append(dice);
  }
  return 0;
}
