// P^T and dS^T of a span of queries and a block of keys: the part of the backward pass that works
// on pairs, and the register kernel that its sums share. backward-inl has the equations.
#if defined(TESSERA_CPU_BACKWARD_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_BACKWARD_TILES_INL_HPP
#undef TESSERA_CPU_BACKWARD_TILES_INL_HPP
#else
#define TESSERA_CPU_BACKWARD_TILES_INL_HPP
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/gradient_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// out += W X for kRows rows of one panel: W[r][n] = w[r * kRow + n * kStep], X has n rows. An
// element of W, and a word of X, is a float32 or a pair.
template <int kRows, int kRow, int kStep, class E>
HWY_INLINE void add_product(const Matrix& out, const E* HWY_RESTRICT w, const Matrix& rows,
                            std::int64_t count) {
  const float* HWY_RESTRICT x = rows.data;
  V sum[kRows][2];
  for (auto& row : sum) row[0] = row[1] = hn::Zero(d);
  for (std::int64_t n = 0; n < count; ++n, w += kStep, x += rows.stride) {
    const V x0 = hn::Load(d, x), x1 = hn::Load(d, x + N);
    for (int r = 0; r < kRows; ++r) {
      const V weight = broadcast(w + r * kRow);
      sum[r][0] = multiply_add(w, weight, x0, sum[r][0]);
      sum[r][1] = multiply_add(w, weight, x1, sum[r][1]);
    }
  }
  float* HWY_RESTRICT to = out.data;
  for (int r = 0; r < kRows; ++r, to += out.stride) {
    hn::Store(hn::Add(hn::Load(d, to), sum[r][0]), d, to);
    hn::Store(hn::Add(hn::Load(d, to + N), sum[r][1]), d, to + N);
  }
}

// P^T and dS^T of a span of queries and a block of keys, [kBlock + kKeyTile][kSpan].
struct SpanBlock {
  float *p, *ds;
  float* s;      // [kBlock + kKeyTile][kStrip]: the scores of a strip that something modifies
  float* slope;  // the same: their derivative by the score before the soft cap
  float* dp;     // the same: dP of a strip, where an arithmetic computes all of it first
};

// A hidden pair weighs -0, one whose weight underflows +0: the first has dS = 0 whatever V holds,
// and a NaN that the second sees is seen.
HWY_INLINE V hide_weight(hn::Mask<D> hidden, V weight) {
  return hn::IfThenElse(hidden, hn::Set(d, -0.f), weight);
}
HWY_INLINE hn::Mask<D> is_hidden(V weight) {
  const hn::RebindToSigned<D> bits;
  return hn::MaskFromVec(hn::BitCast(
      d, hn::VecFromMask(bits,
                         hn::Eq(hn::BitCast(bits, weight), hn::BitCast(bits, hn::Set(d, -0.f))))));
}

// What one worker of the backward pass writes to.
struct BackwardScratch {
  plan::BackwardLayout at;
  Queries queries;
  Keys keys;
  Matrix dk, dv;  // of all keys of a task
  SpanBlock block;
  Problem uncapped;  // the problem as its modifiers see it: the soft cap is applied here
  Modifiers modifiers;
  KeptPairs kept;
  float *row, *bias_sums;

  BackwardScratch(const Call& call, float* memory)
      : at(plan::backward_layout(call.problem, call.plan, plan::bias_keys(*call.gradients))),
        queries{{},
                {memory + at.q, at.dim},
                {memory + at.d_out, at.value_dim},
                {memory + at.dq, at.dim},
                memory + at.q_columns,
                memory + at.d_out_columns,
                memory + at.lse,
                memory + at.delta},
        keys{{}, {memory + at.k, at.dim}, {memory + at.v, at.value_dim}},
        dk{memory + at.dk, at.dim},
        dv{memory + at.dv, at.value_dim},
        block{memory + at.p, memory + at.ds, memory + at.s, memory + at.slope, memory + at.dp},
        uncapped(without_cap(call.problem)),
        modifiers(uncapped, memory + at.modifiers),
        row(memory + at.row),
        bias_sums(memory + at.bias_sums) {}

  static Problem without_cap(Problem p) {
    p.softcap = 0;
    return p;
  }
};

// One strip of a span of queries, before one block of keys.
struct BackStrip {
  const BackwardCall& call;
  const Head& head;
  Range rows, visible, full;  // visible: whole tiles of the block; full: keys that all rows see
  std::int64_t first;         // row of `queries` at its begin
  int column;                 // of SpanBlock
  const KeptPairs* kept;  // what dropout keeps, keys counted from those of `visible`; or nullptr
};

// A span of queries, of which `live` see something, before the block of keys.
struct Step {
  const Head& head;
  Range block, live;
  std::int64_t span;  // its first query
};

// The lanes of one half that the band hides key j from.
HWY_INLINE hn::Mask<D> hidden_lanes(const BackStrip& t, int half, std::int64_t j) {
  const core::Band& band = t.head.sequence.band;
  const std::int64_t diagonal = j - band.offset - t.rows.begin;
  return hn::Not(lanes_within(half, float(diagonal - band.right), float(diagonal + band.left)));
}

// Columns of a strip, and how long their sums may be.
struct Columns {
  const float* data;
  std::int64_t dim, chain;
};

// S^T = K Q^T for the keys of one tile, counted from those of the block.
template <class E>
HWY_INLINE void multiply_tile(V (&s)[kKeyTile][2], const E* keys, std::int64_t stride, Range tile,
                              const Columns& columns) {
  const E* rows[kKeyTile];  // past the end the last key repeats, and nobody reads it
  for (int j = 0; j < kKeyTile; ++j)
    rows[j] = keys + std::min(tile.begin + j, tile.end - 1) * stride;
  multiply_chains<2>(s, rows, columns.data, columns.dim, columns.chain);
}

// dQ += dS K for the rows of one strip; each tile of rows takes the keys that it sees.
template <class A, int kTile = 0>
HWY_INLINE void add_row_tiles(BackwardScratch& w, const Step& t, int column) {
  constexpr int kBegin = row_tile_begin(kTile), kEnd = row_tile_begin(kTile + 1);
  const std::int64_t row = column + kBegin;
  const Range rows = Range{t.span + row, t.span + column + kEnd} & t.live;
  const Range keys = t.head.sequence.band.seen_by_any(rows) & t.block;
  const Matrix& dq = w.queries.dq;
  if (!rows.empty() && !keys.empty())
    A::template add_rows<kEnd - kBegin>({dq.row(t.span + row - w.queries.rows.begin), dq.stride}, w,
                                        row,
                                        {keys.begin - t.block.begin, keys.end - t.block.begin});
  if constexpr (kTile + 1 < kRowTiles) add_row_tiles<A, kTile + 1>(w, t, column);
}

// The arithmetic of the backward pass on float32. Another one has the same words.
struct BackwardFloat32 {
  static constexpr bool kScaled = true;       // scores come in units of log2
  static constexpr int kKeyGroup = kKeyTile;  // keys that add_tile takes

  struct Session {};  // what a worker holds while it computes

  static void pack_queries(Queries& t, const BackwardCall& c, const Head& head, Range rows,
                           float* row) {
    HWY_NAMESPACE::pack_queries(t, c, head, rows, row);
  }
  static void pack_keys(Keys& t, const Problem& p, const Head& head, Range range) {
    HWY_NAMESPACE::pack_keys(t, p, head, range);
  }

  // Before the tiles of a strip.
  static void prepare(const BackStrip&, BackwardScratch&, bool) {}

  // S^T = K Q^T and dP^T = V dO^T of the tile from `key` on.
  static HWY_INLINE void scores(V (&s)[kKeyTile][2], const BackStrip& t, const BackwardScratch& w,
                                std::int64_t key) {
    const std::int64_t dim = t.call.p.dim;
    const Range range = w.keys.range;
    multiply_tile(s, w.keys.k.data, w.keys.k.stride, {key - range.begin, range.size()},
                  {w.queries.q_columns + t.first * dim, dim, longest_chain(t.call.p)});
  }
  static HWY_INLINE void d_weights(V (&dp)[kKeyTile][2], const BackStrip& t,
                                   const BackwardScratch& w, std::int64_t key) {
    const std::int64_t dim = t.call.p.value_dim;
    const Range range = w.keys.range;
    multiply_tile(dp, w.keys.v.data, w.keys.v.stride, {key - range.begin, range.size()},
                  {w.queries.d_out_columns + t.first * dim, dim, kLongestChain});
  }

  // The tile in SpanBlock.
  static HWY_INLINE std::int64_t place(const BackStrip& t, const BackwardScratch& w,
                                       std::int64_t key) {
    return (key - w.keys.range.begin) * kSpan + t.column;
  }
  static HWY_INLINE void store_tile(float* to, const V (&x)[kKeyTile][2]) {
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) hn::Store(x[j][half], d, to + j * kSpan + half * N);
  }
  static HWY_INLINE void put_weights(const BackStrip& t, BackwardScratch& w, std::int64_t key,
                                     const V (&x)[kKeyTile][2]) {
    store_tile(w.block.p + place(t, w, key), x);
  }
  static HWY_INLINE V weight(const float* tile, int j, int half) {
    return hn::Load(d, tile + j * kSpan + half * N);
  }
  static HWY_INLINE const float* weights(const BackStrip& t, const BackwardScratch& w,
                                         std::int64_t key) {
    return w.block.p + place(t, w, key);
  }
  // Weights of 0 for the pairs that dropout removes: dV does not see them.
  static HWY_INLINE void drop_weights(const BackStrip& t, BackwardScratch& w, std::int64_t key) {
    float* const tile = w.block.p + place(t, w, key);
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) {
        float* const at = tile + j * kSpan + half * N;
        hn::Store(t.kept->keep(hn::Load(d, at), half, key + j - t.visible.begin), d, at);
      }
  }
  static HWY_INLINE void put_scores(const BackStrip& t, BackwardScratch& w, std::int64_t key,
                                    const V (&x)[kKeyTile][2]) {
    store_tile(w.block.ds + place(t, w, key), x);
  }

  // The rows of a span.
  static float* span_of(const Matrix& m, std::int64_t row) { return m.row(row); }

  // dV += P^T dO and dK += dS^T Q for the keys of one group and some rows of the span.
  static HWY_INLINE void add_tile(const Matrix& to, const float* w, const Matrix& rows,
                                  std::int64_t key, Range some) {
    for (std::int64_t c = 0; c < to.stride; c += kPanel)
      add_product<kKeyTile, kSpan, 1>({to.row(key) + c, to.stride}, w + key * kSpan + some.begin,
                                      {rows.row(some.begin) + c, rows.stride}, some.size());
  }
  // dQ += dS K for the rows of one strip.
  static HWY_INLINE void add_to_queries(BackwardScratch& w, const Step& t, int column) {
    add_row_tiles<BackwardFloat32>(w, t, column);
  }
  template <int kRows>
  static HWY_INLINE void add_rows(const Matrix& to, const BackwardScratch& w, std::int64_t row,
                                  Range keys) {
    for (std::int64_t c = 0; c < to.stride; c += kPanel)
      add_product<kRows, 1, kSpan>({to.data + c, to.stride}, w.block.ds + keys.begin * kSpan + row,
                                   {w.keys.k.row(keys.begin) + c, w.keys.k.stride}, keys.size());
  }
  // dQ by rows, once all keys are in it.
  static const Matrix& collect_queries(BackwardScratch& w) { return w.queries.dq; }
};

// The scores of a strip with everything that modifies them, in pairs.s, and the slope of the cap.
template <class A>
HWY_NOINLINE inline void modified_scores(const BackStrip& t, BackwardScratch& w, Seen seen) {
  const Problem& p = t.call.p;
  const V unit = hn::Set(d, A::kScaled ? 1 : log2_scale(p));
  const float cap = p.softcap * kLog2E;
  float *s = w.block.s, *slope = w.block.slope;
  for (std::int64_t key = t.visible.begin; key < t.visible.end; key += kKeyTile) {
    V tile[kKeyTile][2];
    A::scores(tile, t, w, key);
    for (int j = 0; j < kKeyTile; ++j, s += kStrip, slope += kStrip)
      for (int half = 0; half < 2; ++half) {
        V x = hn::Mul(unit, tile[j][half]);
        if (cap != 0) {
          const V t_cap = tanh(hn::Mul(x, hn::Set(d, 1 / cap)));
          x = hn::Mul(hn::Set(d, cap), t_cap);
          hn::Store(hn::NegMulAdd(t_cap, t_cap, hn::Set(d, 1.f)), d, slope + half * N);
        }
        hn::Store(x, d, s + half * N);
      }
  }
  const Range keys = t.visible & w.keys.range;
  if (w.modifiers.needed(seen)) return w.modifiers.apply<2>(t.head, t.rows, keys, seen, w.block.s);
  hide<2>(w.block.s, t.head.sequence.band, t.rows, keys);
}

// P^T of a tile: fused with S^T = K Q^T, or of scores that are there.
template <class A, bool kModified>
HWY_INLINE void weigh_tile(const BackStrip& t, BackwardScratch& w, std::int64_t key) {
  V s[kKeyTile][2];
  if (kModified) {
    const float* from = w.block.s + (key - t.visible.begin) * kStrip;
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) s[j][half] = hn::Load(d, from + j * kStrip + half * N);
  } else {
    A::scores(s, t, w, key);
  }
  const float* lse = w.queries.lse + t.first;
  const V base[2] = {hn::Load(d, lse), hn::Load(d, lse + N)};
  const V unit = hn::Set(d, log2_scale(t.call.p));
  const bool some_hidden = kModified || !t.full.contains(Range{key, key + kKeyTile} & w.keys.range);
  for (int j = 0; j < kKeyTile; ++j)
    for (int half = 0; half < 2; ++half) {
      const V x = s[j][half];
      const bool scaled = kModified || A::kScaled;
      V weight = exp2(scaled ? hn::Sub(x, base[half]) : hn::MulSub(x, unit, base[half]));
      if (kModified)
        weight = hide_weight(hn::Eq(x, hn::Set(d, -kInfinity)), weight);
      else if (some_hidden)
        weight = hide_weight(hidden_lanes(t, half, key + j), weight);
      s[j][half] = weight;
    }
  A::put_weights(t, w, key, s);
}

// dS^T = P^T (dP^T - D) of a tile, dP^T = V dO^T.
template <class A>
HWY_INLINE void differentiate_tile(const BackStrip& t, BackwardScratch& w, std::int64_t key,
                                   const float* slope) {
  const float* delta = w.queries.delta + t.first;
  V dp[kKeyTile][2];
  A::d_weights(dp, t, w, key);
  const V base[2] = {hn::Load(d, delta), hn::Load(d, delta + N)};
  const V factor = hn::Set(d, float(t.call.p.dropout.factor()));
  const float* weights = A::weights(t, w, key);
  for (int j = 0; j < kKeyTile; ++j)
    for (int half = 0; half < 2; ++half) {
      const V weight = A::weight(weights, j, half);
      if (t.kept != nullptr)
        dp[j][half] = hn::Mul(factor, t.kept->keep(dp[j][half], half, key + j - t.visible.begin));
      V ds = hn::Mul(weight, hn::Sub(dp[j][half], base[half]));
      if (slope != nullptr) ds = hn::Mul(ds, hn::Load(d, slope + j * kStrip + half * N));
      dp[j][half] = hn::IfThenZeroElse(is_hidden(weight), ds);
    }
  A::put_scores(t, w, key, dp);
}

// P and, if wanted, dS of a strip and the block; dS by the score before the soft cap, or after.
template <class A, bool kModified>
HWY_INLINE void weigh_strip(const BackStrip& t, BackwardScratch& w, bool d_scores, bool inner) {
  const bool capped = kModified && inner && t.call.p.softcap != 0;
  for (std::int64_t key = t.visible.begin; key < t.visible.end; key += kKeyTile) {
    weigh_tile<A, kModified>(t, w, key);
    if (d_scores)
      differentiate_tile<A>(t, w, key,
                            capped ? w.block.slope + (key - t.visible.begin) * kStrip : nullptr);
    if (t.kept != nullptr) A::drop_weights(t, w, key);
  }
}

// A span of queries and the block: fills SpanBlock for the rows that see some of it, and returns
// those.
struct Wanted {
  bool d_scores, inner;  // inner: dS is of the score before the soft cap
};
template <class A>
HWY_INLINE Range weigh_span(const BackwardCall& c, BackwardScratch& w, const Head& head, Range rows,
                            Wanted wanted) {
  const core::Band& band = head.sequence.band;
  const Range keys = w.keys.range;
  Range live{0, 0};
  for (int i = 0; i < 2; ++i) {
    const Range strip = Range{rows.begin + i * kStrip, rows.begin + (i + 1) * kStrip} & rows;
    if (strip.empty()) continue;
    Range visible = band.seen_by_any(strip) & keys;
    if (visible.empty()) continue;
    const Seen seen = w.modifiers.scan(head, strip, visible);
    if (seen == Seen::kNone) continue;
    visible.begin = keys.begin + (visible.begin - keys.begin) / A::kKeyGroup * A::kKeyGroup;
    visible.end = keys.begin + divide_up(visible.end - keys.begin, A::kKeyGroup) * A::kKeyGroup;
    const bool dropping = c.p.dropout.p != 0;
    if (dropping) w.kept.draw<2>(c.p, head, strip, visible);
    const BackStrip t{c,
                      head,
                      strip,
                      visible,
                      band.seen_by_all(strip),
                      strip.begin - w.queries.rows.begin,
                      i * kStrip,
                      dropping ? &w.kept : nullptr};
    A::prepare(t, w, wanted.d_scores);
    if (c.p.softcap != 0 || w.modifiers.needed(seen)) {
      modified_scores<A>(t, w, seen);
      weigh_strip<A, true>(t, w, wanted.d_scores, wanted.inner);
    } else {
      weigh_strip<A, false>(t, w, wanted.d_scores, wanted.inner);
    }
    live = live.empty() ? strip : Range{live.begin, strip.end};
  }
  return live;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
