// The backward pass without the matrix: P is computed again from lse, block by block, compiled once
// per target. For the queries of a span and the keys of a block, transposed as in forward-inl:
//
//   S^T = K Q^T        P^T  = 2^(S^T - lse)         a hidden pair has P = 0
//   dP^T = V dO^T      dS^T = P^T (dP^T - D)        D = rowsum(dO o O) - dLSE
//   dV += P^T dO       dK  += dS^T Q                dQ += dS K
//
// Source: Dao, "FlashAttention-2", 2023, algorithm 2. Keys are the outer loop: dK and dV of a block
// stay near while the queries of the head pass by.
#if defined(TESSERA_CPU_BACKWARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_BACKWARD_INL_HPP
#undef TESSERA_CPU_BACKWARD_INL_HPP
#else
#define TESSERA_CPU_BACKWARD_INL_HPP
#endif

#include <algorithm>
#include <cstdint>

#include "core/reference_careful.hpp"
#include "cpu/gradient_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// out += W X for kRows rows of one panel: W[r][n] = w[r * kRow + n * kStep], X has n rows.
template <int kRows, int kRow, int kStep>
HWY_INLINE void add_product(const Matrix& out, const float* HWY_RESTRICT w, const Matrix& rows,
                            std::int64_t count) {
  const float* HWY_RESTRICT x = rows.data;
  V sum[kRows][2];
  for (auto& row : sum) row[0] = row[1] = hn::Zero(d);
  for (std::int64_t n = 0; n < count; ++n, w += kStep, x += rows.stride) {
    const V x0 = hn::Load(d, x), x1 = hn::Load(d, x + N);
    for (int r = 0; r < kRows; ++r) {
      const V weight = hn::Set(d, w[r * kRow]);
      sum[r][0] = hn::MulAdd(weight, x0, sum[r][0]);
      sum[r][1] = hn::MulAdd(weight, x1, sum[r][1]);
    }
  }
  float* HWY_RESTRICT to = out.data;
  for (int r = 0; r < kRows; ++r, to += out.stride) {
    hn::Store(hn::Add(hn::Load(d, to), sum[r][0]), d, to);
    hn::Store(hn::Add(hn::Load(d, to + N), sum[r][1]), d, to + N);
  }
}

// P^T and dS^T of a span of queries and a block of keys, [kBlock + kKeyTile][kSpan].
struct Pairs {
  float *p, *ds;
  float* s;      // [kBlock + kKeyTile][kStrip]: the scores of a strip that something modifies
  float* slope;  // the same: their derivative by the score before the soft cap
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
  Pairs pairs;
  Problem uncapped;  // the problem as its modifiers see it: the soft cap is applied here
  Modifiers modifiers;
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
        pairs{memory + at.p, memory + at.ds, memory + at.s, memory + at.slope},
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
struct StripOfPairs {
  const BackwardCall& call;
  const Head& head;
  Range rows, visible, full;  // visible: whole tiles of the block; full: keys that all rows see
  std::int64_t first;         // row of `queries` at its begin
  int column;                 // of Pairs
};

// Columns of a strip, and how long their sums may be.
struct Columns {
  const float* data;
  std::int64_t dim, chain;
};

// S^T = K Q^T for the keys of one tile, counted from those of the block.
HWY_INLINE void multiply_tile(V (&s)[kKeyTile][2], const Matrix& keys, Range tile,
                              const Columns& columns) {
  const float* rows[kKeyTile];  // past the end the last key repeats, and nobody reads it
  for (int j = 0; j < kKeyTile; ++j) rows[j] = keys.row(std::min(tile.begin + j, tile.end - 1));
  if (columns.dim <= columns.chain)
    multiply_transposed<2>(s, rows, columns.data, columns.dim);
  else
    multiply_long<2>(s, rows, columns.data, columns.dim, columns.chain);
}

// The lanes of one half that the band hides key j from.
HWY_INLINE hn::Mask<D> hidden_lanes(const StripOfPairs& t, int half, std::int64_t j) {
  const core::Band& band = t.head.sequence.band;
  const std::int64_t diagonal = j - band.offset - t.rows.begin;
  return hn::Not(lanes_within(half, float(diagonal - band.right), float(diagonal + band.left)));
}

// The scores of a strip with everything that modifies them, in pairs.s, and the slope of the cap.
HWY_NOINLINE void modified_scores(const StripOfPairs& t, BackwardScratch& w, Seen seen) {
  const Problem& p = t.call.p;
  const Range range = w.keys.range;
  const Columns columns{w.queries.q_columns + t.first * p.dim, p.dim, longest_chain(p)};
  const float cap = p.softcap * kLog2E;
  float *s = w.pairs.s, *slope = w.pairs.slope;
  for (std::int64_t key = t.visible.begin; key < t.visible.end; key += kKeyTile) {
    V tile[kKeyTile][2];
    multiply_tile(tile, w.keys.k, {key - range.begin, range.size()}, columns);
    for (int j = 0; j < kKeyTile; ++j, s += kStrip, slope += kStrip)
      for (int half = 0; half < 2; ++half) {
        V x = tile[j][half];
        if (cap != 0) {
          const V t_cap = tanh(hn::Mul(x, hn::Set(d, 1 / cap)));
          x = hn::Mul(hn::Set(d, cap), t_cap);
          hn::Store(hn::NegMulAdd(t_cap, t_cap, hn::Set(d, 1.f)), d, slope + half * N);
        }
        hn::Store(x, d, s + half * N);
      }
  }
  const Range keys = t.visible & range;
  if (w.modifiers.needed(seen)) return w.modifiers.apply<2>(t.head, t.rows, keys, seen, w.pairs.s);
  s = w.pairs.s;
  for (std::int64_t j = keys.begin; j < keys.end; ++j, s += kStrip)
    for (int half = 0; half < 2; ++half)
      hn::Store(hide_unless(hn::Not(hidden_lanes(t, half, j)), hn::Load(d, s + half * N)), d,
                s + half * N);
}

// P^T of a strip: fused with S^T = K Q^T, or of scores that are there.
template <bool kModified>
HWY_INLINE void weigh_tile(const StripOfPairs& t, BackwardScratch& w, std::int64_t key,
                           std::int64_t chain) {
  const Problem& p = t.call.p;
  const Range range = w.keys.range;
  const float* lse = w.queries.lse + t.first;
  float* to = w.pairs.p + (key - range.begin) * kSpan + t.column;
  V s[kKeyTile][2];
  if (kModified) {
    const float* from = w.pairs.s + (key - t.visible.begin) * kStrip;
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) s[j][half] = hn::Load(d, from + j * kStrip + half * N);
  } else {
    multiply_tile(s, w.keys.k, {key - range.begin, range.size()},
                  {w.queries.q_columns + t.first * p.dim, p.dim, chain});
  }
  const bool some_hidden = kModified || !t.full.contains(Range{key, key + kKeyTile} & range);
  const V base[2] = {hn::Load(d, lse), hn::Load(d, lse + N)};
  for (int j = 0; j < kKeyTile; ++j)
    for (int half = 0; half < 2; ++half) {
      V weight = exp2(hn::Sub(s[j][half], base[half]));
      if (kModified)
        weight = hide_weight(hn::Eq(s[j][half], hn::Set(d, -kInfinity)), weight);
      else if (some_hidden)
        weight = hide_weight(hidden_lanes(t, half, key + j), weight);
      hn::Store(weight, d, to + j * kSpan + half * N);
    }
}

// dS^T = P^T (dP^T - D) of a tile, dP^T = V dO^T.
HWY_INLINE void differentiate_tile(const StripOfPairs& t, BackwardScratch& w, std::int64_t key,
                                   const float* slope) {
  const Problem& p = t.call.p;
  const Range range = w.keys.range;
  const std::int64_t at = (key - range.begin) * kSpan + t.column;
  const float* delta = w.queries.delta + t.first;
  V dp[kKeyTile][2];
  multiply_tile(dp, w.keys.v, {key - range.begin, range.size()},
                {w.queries.d_out_columns + t.first * p.value_dim, p.value_dim, kLongestChain});
  const V base[2] = {hn::Load(d, delta), hn::Load(d, delta + N)};
  for (int j = 0; j < kKeyTile; ++j)
    for (int half = 0; half < 2; ++half) {
      const V weight = hn::Load(d, w.pairs.p + at + j * kSpan + half * N);
      V ds = hn::Mul(weight, hn::Sub(dp[j][half], base[half]));
      if (slope != nullptr) ds = hn::Mul(ds, hn::Load(d, slope + j * kStrip + half * N));
      hn::Store(hn::IfThenZeroElse(is_hidden(weight), ds), d,
                w.pairs.ds + at + j * kSpan + half * N);
    }
}

// P and, if wanted, dS of a strip and the block; dS by the score before the soft cap, or after.
template <bool kModified>
HWY_INLINE void compute_pairs(const StripOfPairs& t, BackwardScratch& w, bool d_scores,
                              bool inner) {
  const std::int64_t chain = longest_chain(t.call.p);
  const bool capped = kModified && inner && t.call.p.softcap != 0;
  for (std::int64_t key = t.visible.begin; key < t.visible.end; key += kKeyTile) {
    weigh_tile<kModified>(t, w, key, chain);
    if (!d_scores) continue;
    differentiate_tile(t, w, key,
                       capped ? w.pairs.slope + (key - t.visible.begin) * kStrip : nullptr);
  }
}

// A span of queries and the block: fills Pairs for the rows that see some of it, and returns those.
struct Wanted {
  bool d_scores, inner;  // inner: dS is of the score before the soft cap
};
HWY_INLINE Range span_of_pairs(const BackwardCall& c, BackwardScratch& w, const Head& head,
                               Range rows, Wanted wanted) {
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
    visible.begin = keys.begin + (visible.begin - keys.begin) / kKeyTile * kKeyTile;
    visible.end = keys.begin + divide_up(visible.end - keys.begin, kKeyTile) * kKeyTile;
    const StripOfPairs t{c,
                         head,
                         strip,
                         visible,
                         band.seen_by_all(strip),
                         strip.begin - w.queries.rows.begin,
                         i * kStrip};
    if (c.p.softcap != 0 || w.modifiers.needed(seen)) {
      modified_scores(t, w, seen);
      compute_pairs<true>(t, w, wanted.d_scores, wanted.inner);
    } else {
      compute_pairs<false>(t, w, wanted.d_scores, wanted.inner);
    }
    live = live.empty() ? strip : Range{live.begin, strip.end};
  }
  return live;
}

// A span of queries, of which `live` see something, before the block of keys.
struct Step {
  const Head& head;
  Range block, live;
  std::int64_t span;  // its first query
};

// to += W X, W = P^T or dS^T, X the rows of the span: each tile of keys takes the rows that see
// some of it.
HWY_INLINE void add_to_keys(const Matrix& to, const float* w, const Matrix& rows, const Step& t) {
  for (std::int64_t key = t.block.begin; key < t.block.end; key += kKeyTile) {
    const Range tile = Range{key, key + kKeyTile} & t.block;
    const Range seeing = t.head.sequence.band.rows_that_see_any(tile) & t.live;
    if (seeing.empty()) continue;
    const std::int64_t first = seeing.begin - t.span, at = key - t.block.begin;
    for (std::int64_t c = 0; c < to.stride; c += kPanel)
      add_product<kKeyTile, kSpan, 1>({to.row(at) + c, to.stride}, w + at * kSpan + first,
                                      {rows.row(first) + c, rows.stride}, seeing.size());
  }
}

// dQ += dS K for the rows of one strip; each tile of rows takes the keys that it sees.
template <int kTile = 0>
HWY_INLINE void add_to_queries(BackwardScratch& w, const Step& t, int column) {
  constexpr int kBegin = row_tile_begin(kTile), kEnd = row_tile_begin(kTile + 1);
  const std::int64_t row = t.span + column + kBegin;
  const Range rows = Range{row, row + kEnd - kBegin} & t.live;
  const Range keys = t.head.sequence.band.seen_by_any(rows) & t.block;
  if (!rows.empty() && !keys.empty()) {
    const std::int64_t first = keys.begin - t.block.begin;
    const Matrix& dq = w.queries.dq;
    for (std::int64_t c = 0; c < dq.stride; c += kPanel)
      add_product<kEnd - kBegin, 1, kSpan>({dq.row(row - w.queries.rows.begin) + c, dq.stride},
                                           w.pairs.ds + first * kSpan + column + kBegin,
                                           {w.keys.k.row(first) + c, w.keys.k.stride}, keys.size());
  }
  if constexpr (kTile + 1 < kRowTiles) add_to_queries<kTile + 1>(w, t, column);
}

// One step: the queries from `span` on before the block; dk and dv of a task begin at first_key.
HWY_INLINE void step_back(const BackwardCall& c, BackwardScratch& w, const Head& head,
                          std::int64_t span, std::int64_t first_key) {
  const Gradients& g = c.g;
  const bool d_scores = g.dq.present() || g.dk.present();
  const Range rows = Range{span, span + kSpan} & w.queries.rows;
  const Step t{head, w.keys.range, span_of_pairs(c, w, head, rows, {d_scores, true}), span};
  if (t.live.empty()) return;
  const auto from = [](const Matrix& m, std::int64_t row) { return Matrix{m.row(row), m.stride}; };
  const std::int64_t key = t.block.begin - first_key, row = span - w.queries.rows.begin;
  if (g.dv.present()) add_to_keys(from(w.dv, key), w.pairs.p, from(w.queries.d_out, row), t);
  if (g.dk.present()) add_to_keys(from(w.dk, key), w.pairs.ds, from(w.queries.q, row), t);
  if (!g.dq.present()) return;
  add_to_queries(w, t, 0);
  add_to_queries(w, t, kStrip);
}

// ---- Results ----

HWY_NOINLINE void define_queries(const BackwardCall& c, const Head& head) {
  core::reference::HeadGradients sums;
  sums.dq.resize(std::size_t(head.sequence.queries * c.p.dim));
  core::reference::add_head(c.p, c.g, head.b, head.h, sums);
  const Sequence& s = head.sequence;
  for (std::int64_t i = 0; i < s.queries; ++i)
    store_gradient(c.g.dq, {s.q_batch, s.q_begin + i, head.h, 0},
                   std::span(sums.dq).subspan(std::size_t(i * c.p.dim), std::size_t(c.p.dim)),
                   c.g.accumulate);
}

HWY_NOINLINE void define_keys(const BackwardCall& c, const Head& first, Range keys) {
  core::reference::HeadGradients sums;
  sums.keys = keys;
  if (c.g.dk.present()) sums.dk.resize(std::size_t(keys.size() * c.p.dim));
  if (c.g.dv.present()) sums.dv.resize(std::size_t(keys.size() * c.p.value_dim));
  for (std::int64_t h = first.h; h < first.h + c.p.group(); ++h)
    core::reference::add_head(c.p, c.g, first.b, h, sums);
  const auto store_rows = [&](const Tensor& t, std::vector<double>& from, std::int64_t j) {
    if (!t.present()) return;
    const core::KeyPlace at = c.p.place(first.sequence, first.b, keys.begin + j);
    const auto n = std::size_t(t.shape[3]);
    store_gradient(t, {at.batch, at.row, first.kv_head, 0},
                   std::span(from).subspan(std::size_t(j) * n, n), c.g.accumulate);
  };
  for (std::int64_t j = 0; j < keys.size(); ++j) {
    store_rows(c.g.dk, sums.dk, j);
    store_rows(c.g.dv, sums.dv, j);
  }
}

// dQ of the rows of a head, summed in `sums` from its first row on.
HWY_INLINE void finish_queries(const BackwardCall& c, const Head& head, const Matrix& sums,
                               float* row) {
  const Sequence& s = head.sequence;
  if (is_lost(c.p, head) || !all_finite(sums, s.queries)) return define_queries(c, head);
  for (std::int64_t i = 0; i < s.queries; ++i)
    store_gradient(c.g.dq, c.g.dq.at(s.q_batch, s.q_begin + i, head.h), sums.row(i), c.p.scale,
                   c.g.accumulate ? row : nullptr);
}

// dK and dV of some keys of all heads that share them.
HWY_INLINE void finish_keys(const BackwardCall& c, BackwardScratch& w, const Head& first,
                            Range keys) {
  const auto fine = [&](const Tensor& t, const Matrix& m) {
    return !t.present() || all_finite(m, keys.size());
  };
  bool sound = fine(c.g.dk, w.dk) && fine(c.g.dv, w.dv);
  for (std::int64_t g = 0; g < c.p.group() && sound; ++g)
    sound = !is_lost(c.p, Head(c.p, first.b * c.p.heads + first.h + g));
  if (!sound) return define_keys(c, first, keys);
  const auto store_row = [&](const Tensor& t, const Matrix& m, std::int64_t j, float scale) {
    if (!t.present()) return;
    const core::KeyPlace at = c.p.place(first.sequence, first.b, keys.begin + j);
    store_gradient(t, t.at(at.batch, at.row, first.kv_head), m.row(j), scale,
                   c.g.accumulate ? w.row : nullptr);
  };
  for (std::int64_t j = 0; j < keys.size(); ++j) {
    store_row(c.g.dk, w.dk, j, c.p.scale);
    store_row(c.g.dv, w.dv, j, 1);
  }
}

// ---- Tasks ----

// Where split `split` of a head keeps its dQ: [splits][heads][rows of q in memory][dim].
struct Parts {
  float* memory;
  std::int64_t rows, heads, dim;

  Parts(const Call& call, std::int64_t padded_dim)
      : memory(call.shared()),
        rows(call.problem.q.shape[0] * call.problem.queries),
        heads(call.problem.heads),
        dim(padded_dim) {}
  Matrix of(const Problem& p, const Head& head, std::int64_t split) const {
    const std::int64_t row = head.sequence.q_batch * p.queries + head.sequence.q_begin;
    return {memory + ((split * heads + head.h) * rows + row) * dim, dim};
  }
};

// All queries of one head before some keys.
HWY_NOINLINE void attend_back(const BackwardCall& c, BackwardScratch& w, const Head& head,
                              Range keys, std::int64_t first_key) {
  const Range all{0, head.sequence.queries};
  pack_queries(w.queries, c, head, all, w.row);
  if (c.g.dq.present())
    std::fill_n(w.queries.dq.data, divide_up(all.end, kSpan) * kSpan * w.queries.dq.stride, 0.f);
  for (std::int64_t key = keys.begin; key < keys.end; key += kBlock) {
    const Range block = Range{key, key + kBlock} & keys;
    const Range rows = head.sequence.band.rows_that_see_any(block) & all;
    if (rows.empty()) continue;
    pack_keys(w.keys, c.p, head, block);
    for (std::int64_t span = rows.begin / kSpan * kSpan; span < rows.end; span += kSpan)
      step_back(c, w, head, span, first_key);
  }
}

// One task: some keys of one head of K and V, before all heads of queries that read them.
HWY_NOINLINE void backward(Call& call, int worker) {
  const BackwardCall c{call.problem, *call.gradients};
  const Problem& p = c.p;
  const plan::Plan& plan = call.plan;
  BackwardScratch w(call, call.of_worker(worker));
  const Parts parts(call, w.at.dim);
  call.tasks.work(worker, [&](std::int64_t task) {
    const std::int64_t split = task % plan.splits, kv = task / plan.splits;
    const std::int64_t b = kv / p.kv_heads, first_head = kv % p.kv_heads * p.group();
    const Head first(p, b * p.heads + first_head);
    // A packed sequence has its own keys, and the split a part of them or none.
    const Range all{0, p.packed_keys() ? first.sequence.keys.end : p.keys};
    const Range stored = Range{split * plan.split_keys, (split + 1) * plan.split_keys} & all;
    if (stored.empty() && split > 0) return;
    std::fill_n(w.dk.data, stored.size() * w.dk.stride, 0.f);
    std::fill_n(w.dv.data, stored.size() * w.dv.stride, 0.f);
    for (std::int64_t g = 0; g < p.group(); ++g) {
      const Head head(p, b * p.heads + first_head + g);
      attend_back(c, w, head, stored & head.sequence.keys, stored.begin);
      if (!c.g.dq.present()) continue;
      if (plan.splits == 1)
        finish_queries(c, head, w.queries.dq, w.row);
      else
        std::copy_n(w.queries.dq.data, head.sequence.queries * w.at.dim,
                    parts.of(p, head, split).data);
    }
    finish_keys(c, w, first, stored);
  });
}

// dQ of one head where the keys were split: the parts are added in their order.
HWY_NOINLINE void reduce_queries(Call& call, int worker) {
  const BackwardCall c{call.problem, *call.gradients};
  const BackwardScratch w(call, call.of_worker(worker));
  const Parts parts(call, w.at.dim);
  call.tasks.work(worker, [&](std::int64_t task) {
    const Head head(c.p, task);
    const Matrix sums = parts.of(c.p, head, 0);
    const std::int64_t n = head.sequence.queries * w.at.dim;
    const std::int64_t keys = c.p.packed_keys() ? head.sequence.keys.end : c.p.keys;
    for (std::int64_t split = 1; split * call.plan.split_keys < keys; ++split) {
      const float* HWY_RESTRICT part = parts.of(c.p, head, split).data;
      for (std::int64_t i = 0; i < n; i += N)
        hn::Store(hn::Add(hn::Load(d, sums.data + i), hn::Load(d, part + i)), d, sums.data + i);
    }
    finish_queries(c, head, sums, w.row);
  });
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
