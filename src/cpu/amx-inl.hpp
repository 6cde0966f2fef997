// The forward on tiles of bfloat16, for AMX. Keys are rows and queries columns of S^T, so that the
// softmax stays as it is, and the pairs of Q^T and P^T (pairs-inl.hpp) are right operands as they
// lie:
//
//   S^T = K Q^T      16 keys x 32 dimensions           32 dimensions x 16 queries
//   O^T = V^T P^T    16 columns of V x 32 keys         32 keys x 16 queries
//
// The words of the tile registers are a parameter: tests put others in their place.
#if defined(TESSERA_CPU_AMX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_AMX_INL_HPP
#undef TESSERA_CPU_AMX_INL_HPP
#else
#define TESSERA_CPU_AMX_INL_HPP
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/isa/amx.hpp"
#include "cpu/pairs-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

constexpr std::int64_t kTile = 16;                // rows, and words of a row
constexpr std::int64_t kTileKeys = 2 * kTile;     // keys or dimensions of one product
constexpr std::int64_t kStripBytes = 4 * kStrip;  // from row to row of Q^T, S^T, P^T and O^T
constexpr std::int64_t kTileBytes = 4 * kTile;
static_assert(N == kTile && kBlock % kTileKeys == 0);

// ---- Keys and values ----

// As PairBlock, but V^T [kBlock / kTileKeys][columns][kTile] pairs of keys: whole tiles.
template <class Words> struct TileBlock {
  using Element = Pair;
  const Pair *k, *v;
  std::int64_t first, k_row;
  bool finite;
  Range keys;

  std::int64_t lead() const { return (keys.begin - first) % kTileKeys; }
  const Pair* key(std::int64_t j) const { return k + (j - first) * k_row; }
  HWY_INLINE void mark_rows(const float* s, const Problem& p, const Head& head, float* l) const {
    if (!finite) mark_rows_that_see(s + lead() * kStrip, p, head, keys, l);
  }
};

// As PairPacker, with dimensions in whole tiles.
template <class Words> class TilePacker : PairSlots {
 public:
  TilePacker(const Problem& p, const plan::Plan& plan, float* memory)
      : PairSlots(p, plan, memory) {}

  TileBlock<Words> operator()(const Problem& p, const Sequence& s, std::int64_t kv_head,
                              Range keys) {
    const Slot slot = find(p, s, kv_head, keys, pack_transposed);
    return {slot.k, slot.v, slot.first, k_row(), slot.finite, keys};
  }

 private:
  static HWY_NOINLINE void pack_transposed(InterleavedValues& values, Pair* to) {
    HWY_ALIGN float pairs[kTile * kPanel];
    for (std::int64_t j = 0; j < kBlock; j += kTileKeys)
      for (std::int64_t c = 0; c < values.columns(); c += kPanel, to += kPanel * kTile) {
        for (std::int64_t i = 0; i < kTile; ++i) values.load(j + 2 * i, c, pairs + i * kPanel);
        for (std::int64_t i = 0; i < kTile; i += kTogether)
          transpose_rows<kTile>(reinterpret_cast<float*>(to) + i, pairs + i * kPanel, kPanel,
                                kPanel);
      }
  }
};

// ---- S^T and O^T ----

// Two tiles of rows of A, or of columns of B: bytes from a row to the next, to the other tile, and
// to the tiles of the next step of the sum.
struct TileOperand {
  const void* at;
  std::int64_t row, other, step;

  const void* tile(std::int64_t step_index, bool second) const {
    return static_cast<const std::byte*>(at) + step_index * step + (second ? other : 0);
  }
};

// C (+)= A B for two tiles of rows and kHalves tiles of columns.
struct TileProduct {
  TileOperand a, b;
  float* c;
  std::int64_t c_row, steps;  // bytes; tiles along the sum

  float* tile(bool lower, bool right) const {
    return reinterpret_cast<float*>(reinterpret_cast<std::byte*>(c) + (lower ? kTile * c_row : 0)) +
           (right ? kTile : 0);
  }
};

// The tiles 0 to 3 hold C by columns, 4 and 5 A, 6 and 7 B.
template <class Words, int kHalves, bool kAccumulate>
HWY_INLINE void multiply_tiles(const TileProduct& t) {
  if constexpr (kAccumulate) {
    Words::template load<0>(t.tile(false, false), t.c_row);
    Words::template load<1>(t.tile(true, false), t.c_row);
    if constexpr (kHalves == 2) Words::template load<2>(t.tile(false, true), t.c_row);
    if constexpr (kHalves == 2) Words::template load<3>(t.tile(true, true), t.c_row);
  } else {
    Words::template zero<0>(), Words::template zero<1>();
    if constexpr (kHalves == 2) Words::template zero<2>(), Words::template zero<3>();
  }
  for (std::int64_t step = 0; step < t.steps; ++step) {
    Words::template load<4>(t.a.tile(step, false), t.a.row);
    Words::template load<5>(t.a.tile(step, true), t.a.row);
    Words::template load<6>(t.b.tile(step, false), t.b.row);
    Words::template multiply<0, 4, 6>();
    Words::template multiply<1, 5, 6>();
    if constexpr (kHalves == 2) {
      Words::template load<7>(t.b.tile(step, true), t.b.row);
      Words::template multiply<2, 4, 7>();
      Words::template multiply<3, 5, 7>();
    }
  }
  Words::template store<0>(t.tile(false, false), t.c_row);
  Words::template store<1>(t.tile(true, false), t.c_row);
  if constexpr (kHalves == 2) Words::template store<2>(t.tile(false, true), t.c_row);
  if constexpr (kHalves == 2) Words::template store<3>(t.tile(true, true), t.c_row);
}

// Pairs of a strip, [steps][kStrip], from `pairs` on.
HWY_INLINE TileOperand of_strip(const float* pairs) {
  return {pairs, kStripBytes, kTileBytes, kTile * kStripBytes};
}

// As the score of the other tiles; rows of S^T before and after the keys hold anything.
template <int kHalves, class Words>
HWY_INLINE void score(Strip& t, const Problem&, const core::Band& band, const TileBlock<Words>& kv,
                      V (&top)[2]) {
  const Range keys = kv.keys;
  const std::int64_t begin = keys.begin - kv.lead();
  for (std::int64_t key = begin; key < keys.end; key += kTileKeys)
    multiply_tiles<Words, kHalves, false>(
        {{kv.key(key), 4 * kv.k_row, 4 * kTile * kv.k_row, kTileBytes},
         of_strip(t.q),
         t.s + (key - begin) * kStrip,
         kStripBytes,
         kv.k_row / kTile});
  const auto hide_some = [&](Range some) {
    if (!some.empty()) hide<kHalves>(t.s + (some.begin - begin) * kStrip, band, t.rows, some);
  };
  hide_some({keys.begin, std::min(keys.end, t.full.begin)});
  hide_some({std::max(keys.begin, std::max(t.full.begin, t.full.end)), keys.end});
  find_top<kHalves>(t.s + kv.lead() * kStrip, keys.size(), top);
}

// O^T = alpha O^T; nothing where no maximum grew, as is usual after a few blocks.
HWY_INLINE void shrink(float* o, const float* alpha, std::int64_t columns) {
  const V left = hn::Load(d, alpha), right = hn::Load(d, alpha + N), one = hn::Set(d, 1.f);
  if (hn::AllTrue(d, hn::And(hn::Eq(left, one), hn::Eq(right, one)))) return;
  for (std::int64_t c = 0; c < columns; ++c, o += kStrip) {
    hn::Store(hn::Mul(left, hn::Load(d, o)), d, o);
    hn::Store(hn::Mul(right, hn::Load(d, o + N)), d, o + N);
  }
}

// O^T = alpha O^T + V^T P^T. Keys beside the wanted ones have weights of 0 and finite values.
template <class Words>
HWY_INLINE void accumulate_keys(Strip& t, const Problem& p, const core::Band&,
                                const TileBlock<Words>& kv, Range wanted) {
  const std::int64_t columns = padded(p.value_dim);
  const std::int64_t begin = (wanted.begin - kv.first) / kTileKeys;
  const std::int64_t steps = divide_up(wanted.end - kv.first, kTileKeys) - begin;
  const std::int64_t in_strip = begin - (kv.keys.begin - kv.first) / kTileKeys;
  const float* const weights = t.s + in_strip * kTile * kStrip;
  shrink(t.o, t.alpha, columns);
  for (std::int64_t c = 0; c < columns; c += kPanel) {
    const TileProduct product{
        {kv.v + (begin * columns + c) * kTile, kTileBytes, kTile * kTileBytes, 4 * columns * kTile},
        of_strip(weights),
        t.o + c * kStrip,
        kStripBytes,
        steps};
    t.rows.size() <= N ? multiply_tiles<Words, 1, true>(product)
                       : multiply_tiles<Words, 2, true>(product);
  }
}
template <class Words>
HWY_INLINE void accumulate_runs(Strip& t, const Problem& p, const core::Band& band,
                                const TileBlock<Words>& kv, const Runs& runs) {
  accumulate_keys(t, p, band, kv, Range{runs.run[0].begin, runs.run[runs.size - 1].end});
}

// One step of a score multiplies two dimensions, sixteen steps at a time.
template <class Words> struct Tiles : Pairs {
  using Packer = TilePacker<Words>;
  using Session = typename Words::Session;

  static constexpr std::int64_t steps(std::int64_t dim) {
    return plan::steps_of(plan::Arithmetic::kTiles, dim);
  }
  static HWY_INLINE void load_query(float* to, const Problem& p, void* at) {
    copy_row(reinterpret_cast<Pair*>(to), p.q, at, p.dim, 2 * steps(p.dim));
  }
  // Whole tiles of keys, so zeros after the weights too.
  template <int kHalves>
  static HWY_INLINE void weigh(float* s, Range rows, float unit, const V (&base)[2], V (&sum)[2]) {
    const std::int64_t end = divide_up(rows.end, kTileKeys) * kTileKeys;
    std::fill(s + rows.end * kStrip, s + end * kStrip, -kInfinity);
    Pairs::weigh<kHalves>(s, {rows.begin, end}, unit, base, sum);
  }
  // O from O^T, panel by panel.
  static HWY_NOINLINE void settle(Strip& t, const Problem& p) {
    for (std::int64_t c = 0; c < p.value_dim; c += kPanel) {
      float* const panel = t.o + c * kStrip;
      for (std::int64_t i = 0; i < kPanel; i += kTogether)
        transpose_rows(t.s + i, panel + i * kStrip, kStrip, kStrip);
      std::copy_n(t.s, kPanel * kStrip, panel);
    }
  }
};

HWY_NOINLINE inline void forward_tiles(Call& call, int worker) {
  call.plan.arithmetic == plan::Arithmetic::kTiles ? forward<Tiles<amx::Registers>>(call, worker)
                                                   : forward<Float32>(call, worker);
}

// The row of AMX in the table of targets.
inline Target tiles_target(const char* name, bool (*present)()) {
  Target row = target(name, present);
  row.bfloat16 = plan::Arithmetic::kTiles;
  row.forward = forward_tiles;
  return row;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
