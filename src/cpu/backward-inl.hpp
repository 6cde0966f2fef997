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
#include "cpu/backward_tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// to += W X, W = P^T or dS^T, X the rows of the span: each tile of keys takes the rows that see
// some of it.
template <class A>
HWY_INLINE void add_to_keys(const Matrix& to, const float* w, const Matrix& rows, const Step& t) {
  for (std::int64_t key = t.block.begin; key < t.block.end; key += A::kKeyGroup) {
    const Range tile = Range{key, key + A::kKeyGroup} & t.block;
    const Range seeing = t.head.sequence.band.rows_that_see_any(tile) & t.live;
    if (seeing.empty()) continue;
    A::add_tile(to, w, rows, key - t.block.begin, {seeing.begin - t.span, seeing.end - t.span});
  }
}

// One step: the queries from `span` on before the block; dk and dv of a task begin at first_key.
template <class A>
HWY_INLINE void step_back(const BackwardCall& c, BackwardScratch& w, const Head& head,
                          std::int64_t span, std::int64_t first_key) {
  const Gradients& g = c.g;
  const bool d_scores = g.dq.present() || g.dk.present();
  const Range rows = Range{span, span + kSpan} & w.queries.rows;
  const Step t{head, w.keys.range, weigh_span<A>(c, w, head, rows, {d_scores, true}), span};
  if (t.live.empty()) return;
  const auto from = [](const Matrix& m, std::int64_t row) { return Matrix{m.row(row), m.stride}; };
  const std::int64_t key = t.block.begin - first_key, row = span - w.queries.rows.begin;
  const auto queries = [row](const Matrix& m) { return Matrix{A::span_of(m, row), m.stride}; };
  if (g.dv.present()) add_to_keys<A>(from(w.dv, key), w.block.p, queries(w.queries.d_out), t);
  if (g.dk.present()) add_to_keys<A>(from(w.dk, key), w.block.ds, queries(w.queries.q), t);
  if (!g.dq.present()) return;
  A::add_to_queries(w, t, 0);
  A::add_to_queries(w, t, kStrip);
}

// ---- Results ----

HWY_NOINLINE inline void define_queries(const BackwardCall& c, const Head& head) {
  core::reference::HeadGradients sums;
  sums.dq.resize(std::size_t(head.sequence.queries * c.p.dim));
  core::reference::add_head(c.p, c.g, head.b, head.h, sums);
  const Sequence& s = head.sequence;
  for (std::int64_t i = 0; i < s.queries; ++i)
    store_gradient(c.g.dq, {s.q_batch, s.q_begin + i, head.h, 0},
                   std::span(sums.dq).subspan(std::size_t(i * c.p.dim), std::size_t(c.p.dim)),
                   c.g.accumulate);
}

HWY_NOINLINE inline void define_keys(const BackwardCall& c, const Head& first, Range keys) {
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
    store_gradient(c.g.dq, c.g.dq.at(s.q_batch, s.q_begin + i, head.h), sums.row(i),
                   float(c.p.scale), c.g.accumulate ? row : nullptr);
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
    store_row(c.g.dk, w.dk, j, float(c.p.scale));
    store_row(c.g.dv, w.dv, j, float(c.p.dropout.factor()));
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
template <class A>
HWY_NOINLINE inline void attend_back(const BackwardCall& c, BackwardScratch& w, const Head& head,
                                     Range keys, std::int64_t first_key) {
  const Range all{0, head.sequence.queries};
  A::pack_queries(w.queries, c, head, all, w.row);
  if (c.g.dq.present())
    std::fill_n(w.queries.dq.data, divide_up(all.end, kSpan) * kSpan * w.queries.dq.stride, 0.f);
  for (std::int64_t key = keys.begin; key < keys.end; key += kBlock) {
    const Range block = Range{key, key + kBlock} & keys;
    const Range rows = head.sequence.band.rows_that_see_any(block) & all;
    if (rows.empty()) continue;
    A::pack_keys(w.keys, c.p, head, block);
    for (std::int64_t span = rows.begin / kSpan * kSpan; span < rows.end; span += kSpan)
      step_back<A>(c, w, head, span, first_key);
  }
}

// The last tile of keys may reach past them, and what it left there is nobody's.
HWY_INLINE void clear_after(BackwardScratch& w, Range stored, std::int64_t keys) {
  const Range rows{std::max(keys - stored.begin, std::int64_t{0}), stored.size()};
  if (rows.empty()) return;
  for (const Matrix& m : {w.dk, w.dv}) std::fill_n(m.row(rows.begin), rows.size() * m.stride, 0.f);
}

// One task: some keys of one head of K and V, before all heads of queries that read them.
template <class A> HWY_NOINLINE void backward(Call& call, int worker) {
  const BackwardCall c{call.problem, *call.gradients};
  const Problem& p = c.p;
  const plan::Plan& plan = call.plan;
  BackwardScratch w(call, call.of_worker(worker));
  const Parts parts(call, w.at.dim);
  [[maybe_unused]] const typename A::Session session;
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
      attend_back<A>(c, w, head, stored & head.sequence.keys, stored.begin);
      if (!c.g.dq.present()) continue;
      if (plan.splits == 1)
        finish_queries(c, head, A::collect_queries(w), w.row);
      else
        std::copy_n(A::collect_queries(w).data, head.sequence.queries * w.at.dim,
                    parts.of(p, head, split).data);
    }
    clear_after(w, stored, first.sequence.keys.end);
    finish_keys(c, w, first, stored);
  });
}

// dQ of one head where the keys were split: the parts are added in their order.
HWY_NOINLINE inline void reduce_queries(Call& call, int worker) {
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
