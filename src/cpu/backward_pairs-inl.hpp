// The backward pass on pairs of bfloat16, for AVX512-BF16: the words of BackwardFloat32 with two
// dimensions, two queries or two keys in a lane of 32 bits, whichever a product sums over. P and dS
// are rounded, each once for each of the products that it goes into; sums are float32.
#if defined(TESSERA_CPU_BACKWARD_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_BACKWARD_PAIRS_INL_HPP
#undef TESSERA_CPU_BACKWARD_PAIRS_INL_HPP
#else
#define TESSERA_CPU_BACKWARD_PAIRS_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/pairs-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

constexpr std::int64_t kPairsOfBlock =
    (kBlock + kKeyTile) * kSpan / 2;  // floats, half of SpanBlock

HWY_INLINE core::Bfloat16* as_bfloat16(float* x) { return reinterpret_cast<core::Bfloat16*>(x); }
HWY_INLINE const Pair* as_pairs(const float* x) { return reinterpret_cast<const Pair*>(x); }
HWY_INLINE Pair* as_pairs(core::Bfloat16* x) { return reinterpret_cast<Pair*>(x); }

// to = (a0, b0), (a1, b1), ...: n elements of two rows, n a multiple of kPanel.
HWY_INLINE void interleave_rows(float* to, const core::Bfloat16* a, const core::Bfloat16* b,
                                std::int64_t n) {
  const __m512i low = order_of_pairs(32), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (std::int64_t i = 0; i < n; i += kPanel, to += kPanel) {
    const __m512i x = _mm512_loadu_si512(a + i), y = _mm512_loadu_si512(b + i);
    _mm512_store_si512(to, _mm512_permutex2var_epi16(x, low, y));
    _mm512_store_si512(to + N, _mm512_permutex2var_epi16(x, high, y));
  }
}

// Rows of queries of one tensor: as pairs of rows, and their columns as pairs of dimensions.
struct PackedRows {
  const Tensor& from;
  Matrix by_rows;  // [rows / 2][padded] pairs
  float* columns;  // [strips][steps][kStrip] pairs
  std::int64_t steps;
};

// kTogether rows of the head from r on; `rows` is scratch for them.
HWY_INLINE void pack_rows(const PackedRows& to, const Queries& t, const Head& head, std::int64_t r,
                          core::Bfloat16* rows) {
  const Sequence& s = head.sequence;
  const std::int64_t dim = to.from.shape[3], stride = to.by_rows.stride;
  for (std::int64_t i = 0; i < kTogether; ++i) {
    core::Bfloat16* const row = rows + i * stride;
    if (t.lse[r + i] == kInfinity)
      std::fill_n(row, stride, core::Bfloat16{});
    else
      copy_row(as_pairs(row), to.from,
               to.from.at(s.q_batch, s.q_begin + t.rows.begin + r + i, head.h), dim, stride);
  }
  for (std::int64_t i = 0; i < kTogether; i += 2)
    interleave_rows(to.by_rows.row((r + i) / 2), rows + i * stride, rows + (i + 1) * stride,
                    stride);
  transpose_rows(to.columns + r / kStrip * to.steps * kStrip + r % kStrip,
                 reinterpret_cast<const float*>(rows), stride / 2, to.steps);
}

struct BackwardPairs {
  static constexpr bool kScaled = false;
  static constexpr int kKeyGroup = kKeyTile;

  struct Session {};  // what a worker holds while it computes
  static void prepare(const BackStrip&, BackwardScratch&, bool) {}

  // Scratch for two rows of float32, and the pairs that a column takes.
  struct Packing {
    float* row;
    std::int64_t steps, value_steps;
  };
  static HWY_NOINLINE void pack_queries(Queries& t, const BackwardCall& c, const Head& head,
                                        Range rows, float* row) {
    pack_pairs(t, c, head, rows, {row, Pairs::steps(c.p.dim), Pairs::steps(c.p.value_dim)});
  }
  static HWY_INLINE void pack_pairs(Queries& t, const BackwardCall& c, const Head& head, Range rows,
                                    const Packing& as) {
    t.rows = rows;
    const std::int64_t padded_rows = divide_up(rows.size(), kSpan) * kSpan;
    const PackedRows q{c.p.q, t.q, t.q_columns, as.steps};
    const PackedRows d_out{c.g.d_out, t.d_out, t.d_out_columns, as.value_steps};
    for (std::int64_t r = 0; r < padded_rows; r += kTogether) {
      for (std::int64_t i = r; i < r + kTogether; ++i) weigh_query(t, c, head, i, as.row);
      pack_rows(q, t, head, r, as_bfloat16(as.row));
      pack_rows(d_out, t, head, r, as_bfloat16(as.row));
    }
  }

  static HWY_INLINE void weigh_query(Queries& t, const BackwardCall& c, const Head& head,
                                     std::int64_t r, float* scratch) {
    t.lse[r] = kInfinity;
    t.delta[r] = 0;
    if (r >= t.rows.size()) return;
    const Sequence& s = head.sequence;
    const std::int64_t row = s.q_begin + t.rows.begin + r;
    const double lse = c.p.lse.load(s.q_batch, head.h, row);
    if (std::isinf(lse)) return;
    float* const out = scratch + t.d_out.stride;
    load_padded(scratch, t.d_out.stride, c.g.d_out, c.g.d_out.at(s.q_batch, row, head.h));
    load_padded(out, t.d_out.stride, c.p.out, c.p.out.at(s.q_batch, row, head.h));
    t.lse[r] = float(lse * kLog2EDouble);
    t.delta[r] = HWY_NAMESPACE::dot(scratch, out, t.d_out.stride) - d_lse_of(c, head, row);
  }

  // K [kBlock][dim / 2], then [kBlock / 2][dim] pairs of keys; V [kBlock][value_dim / 2]. A last
  // key without a neighbour has zeros for one.
  static HWY_NOINLINE void pack_keys(Keys& t, const Problem& p, const Head& head, Range range) {
    copy_keys(t, p, head, range);
    core::Bfloat16* const rows = as_bfloat16(t.k.data);
    if (range.size() % 2 != 0)
      std::fill_n(rows + range.size() * t.k.stride, t.k.stride, core::Bfloat16{});
    for (std::int64_t j = 0; j < range.size(); j += 2)
      interleave_rows(key_pairs(t) + j / 2 * t.k.stride, rows + j * t.k.stride,
                      rows + (j + 1) * t.k.stride, t.k.stride);
  }
  static HWY_INLINE void copy_keys(Keys& t, const Problem& p, const Head& head, Range range) {
    t.range = range;
    const auto copy = [&](const Tensor& from, const Matrix& to, std::int64_t j) {
      const core::KeyPlace at = p.place(head.sequence, head.b, range.begin + j);
      copy_row(as_pairs(as_bfloat16(to.data) + j * to.stride), from,
               from.at(at.batch, at.row, head.kv_head), from.shape[3], to.stride);
    };
    for (std::int64_t j = 0; j < range.size(); ++j) {
      copy(p.k, t.k, j);
      copy(p.v, t.v, j);
    }
  }
  static float* key_pairs(const Keys& t) { return t.k.data + kBlock * t.k.stride / 2; }

  static HWY_INLINE void scores(V (&s)[kKeyTile][2], const BackStrip& t, const BackwardScratch& w,
                                std::int64_t key) {
    const std::int64_t steps = Pairs::steps(t.call.p.dim);
    const Range range = w.keys.range;
    const Matrix& k = w.keys.k;
    multiply_tile(s, as_pairs(k.data), k.stride / 2, {key - range.begin, range.size()},
                  {w.queries.q_columns + t.first * steps, steps, longest_chain(t.call.p) / 2});
  }
  static HWY_INLINE void d_weights(V (&dp)[kKeyTile][2], const BackStrip& t,
                                   const BackwardScratch& w, std::int64_t key) {
    const std::int64_t steps = Pairs::steps(t.call.p.value_dim);
    const Range range = w.keys.range;
    const Matrix& v = w.keys.v;
    multiply_tile(dp, as_pairs(v.data), v.stride / 2, {key - range.begin, range.size()},
                  {w.queries.d_out_columns + t.first * steps, steps, kLongestChain / 2});
  }

  // P and dS are [keys][kSpan] of bfloat16, so that two queries are a pair. Behind them lies P of
  // one tile in float32, and dS as [keys / 2][kSpan] pairs of keys.
  static HWY_INLINE void store_rows(float* block, const BackStrip& t, std::int64_t key,
                                    const V (&x)[kKeyTile][2]) {
    core::Bfloat16* const to = as_bfloat16(block) + key * kSpan + t.column;
    for (int j = 0; j < kKeyTile; ++j)
      _mm512_store_si512(to + j * kSpan, round_both(x[j][0], x[j][1]));
  }
  static HWY_INLINE void put_weights(const BackStrip& t, BackwardScratch& w, std::int64_t key,
                                     const V (&x)[kKeyTile][2]) {
    store_rows(w.block.p, t, key - w.keys.range.begin, x);
    float* const tile = w.block.p + kPairsOfBlock;
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) hn::Store(x[j][half], d, tile + j * kStrip + half * N);
  }
  static HWY_INLINE const float* weights(const BackStrip&, const BackwardScratch& w, std::int64_t) {
    return w.block.p + kPairsOfBlock;
  }
  static HWY_INLINE V weight(const float* tile, int j, int half) {
    return hn::Load(d, tile + j * kStrip + half * N);
  }
  static HWY_INLINE void put_scores(const BackStrip& t, BackwardScratch& w, std::int64_t key,
                                    const V (&x)[kKeyTile][2]) {
    const std::int64_t at = key - w.keys.range.begin;
    store_rows(w.block.ds, t, at, x);
    const __m512i order = order_of_pairs(16);
    float* const pairs = w.block.ds + kPairsOfBlock + at / 2 * kSpan + t.column;
    for (int j = 0; j < kKeyTile; j += 2)
      for (int half = 0; half < 2; ++half)
        _mm512_store_si512(pairs + j / 2 * kSpan + half * N,
                           _mm512_permutexvar_epi16(order, round_both(x[j][half], x[j + 1][half])));
  }

  // The planner leaves dropout to float32.
  static void drop_weights(const BackStrip&, BackwardScratch&, std::int64_t) {}

  static float* span_of(const Matrix& m, std::int64_t row) { return m.row(row / 2); }
  static HWY_INLINE void add_tile(const Matrix& to, const float* w, const Matrix& rows,
                                  std::int64_t key, Range some) {
    const std::int64_t first = some.begin / 2, steps = divide_up(some.end, 2) - first;
    for (std::int64_t c = 0; c < to.stride; c += kPanel)
      add_product<kKeyTile, kSpan / 2, 1>({to.row(key) + c, to.stride},
                                          as_pairs(w) + key * (kSpan / 2) + first,
                                          {rows.row(first) + c, rows.stride}, steps);
  }
  static HWY_INLINE void add_to_queries(BackwardScratch& w, const Step& t, int column) {
    add_row_tiles<BackwardPairs>(w, t, column);
  }
  template <int kRows>
  static HWY_INLINE void add_rows(const Matrix& to, const BackwardScratch& w, std::int64_t row,
                                  Range keys) {
    const std::int64_t first = keys.begin / 2, steps = divide_up(keys.end, 2) - first;
    const Matrix k{key_pairs(w.keys), w.keys.k.stride};
    for (std::int64_t c = 0; c < to.stride; c += kPanel)
      add_product<kRows, 1, kSpan>({to.data + c, to.stride},
                                   as_pairs(w.block.ds + kPairsOfBlock) + first * kSpan + row,
                                   {k.row(first) + c, k.stride}, steps);
  }
  static const Matrix& collect_queries(BackwardScratch& w) { return w.queries.dq; }
};

HWY_NOINLINE inline void backward_pairs(Call& call, int worker) {
  call.plan.arithmetic == plan::Arithmetic::kPairs ? backward<BackwardPairs>(call, worker)
                                                   : backward<BackwardFloat32>(call, worker);
}

// The row of AVX512-BF16 in the table of targets, both passes.
inline Target bfloat16_target(const char* name, bool (*present)()) {
  Target row = pairs_target(name, present);
  row.backward = backward_pairs;
  return row;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
