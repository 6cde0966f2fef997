// The gradients of the bias and of the sink, each in a pass of its own: a task sums over everything
// that was broadcast into its part, so that no two tasks add to one place. The bias costs the two
// products of dS again.
#if defined(TESSERA_CPU_BACKWARD_OPTIONS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_BACKWARD_OPTIONS_INL_HPP
#undef TESSERA_CPU_BACKWARD_OPTIONS_INL_HPP
#else
#define TESSERA_CPU_BACKWARD_OPTIONS_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/backward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// What one task sums: rows and heads of dBias, for all of its keys. sums is [keys][kSpan], or
// [1][kSpan] where the bias does not distinguish keys.
struct BiasPart {
  Range batches, heads, rows;
  bool by_row, by_key;
  float* sums;
  std::int64_t keys;

  float* at(std::int64_t key, std::int64_t lane) const {
    return sums + (by_key ? key : 0) * kSpan + lane;
  }
};

inline BiasPart bias_part(const BackwardCall& c, std::int64_t task, float* sums) {
  const core::Index4& shape = c.g.d_bias.shape;
  const std::int64_t spans = plan::bias_spans(c.g, kSpan);
  const std::int64_t span = task % spans * kSpan, h = task / spans % shape[1];
  const std::int64_t b = task / spans / shape[1];
  const Range all{0, shape[2] == 1 ? c.p.queries : shape[2]};
  BiasPart part{};
  part.batches = shape[0] == 1 ? Range{0, c.p.batch} : Range{b, b + 1};
  part.heads = shape[1] == 1 ? Range{0, c.p.heads} : Range{h, h + 1};
  part.by_row = shape[2] != 1;
  part.rows = part.by_row ? Range{span, span + kSpan} & all : all;
  part.by_key = shape[3] != 1;
  part.keys = part.by_key ? shape[3] : 1;
  part.sums = sums;
  return part;
}

// Adds dS of the block and of the live rows of a span.
HWY_INLINE void add_scores(const BiasPart& part, const BackwardScratch& w, const Head& head,
                           Range live, std::int64_t span) {
  const Range block = w.keys.range;
  for (std::int64_t key = block.begin; key < block.end; ++key) {
    const std::int64_t tile = block.begin + (key - block.begin) / kKeyTile * kKeyTile;
    const Range seeing =
        head.sequence.band.rows_that_see_any(Range{tile, tile + kKeyTile} & block) & live;
    const float* ds = w.block.ds + (key - block.begin) * kSpan;
    for (std::int64_t i = seeing.begin; i < seeing.end; ++i)
      *part.at(key, i - span) += ds[i - span];
  }
}

HWY_NOINLINE inline void sum_bias(const BackwardCall& c, BackwardScratch& w, const BiasPart& part,
                                  const Head& head) {
  const Range keys = head.sequence.keys, all = part.rows & Range{0, head.sequence.queries};
  for (std::int64_t span = all.begin; span < all.end; span += kSpan) {
    const Range rows = Range{span, span + kSpan} & all;
    const Range visible = head.sequence.band.seen_by_any(rows) & keys;
    if (visible.empty()) continue;
    pack_queries(w.queries, c, head, rows, w.row);
    for (std::int64_t key = visible.begin / kBlock * kBlock; key < visible.end; key += kBlock) {
      const Range block = Range{key, key + kBlock} & visible;
      pack_keys(w.keys, c.p, head, block);
      const Range live = weigh_span<BackwardFloat32>(c, w, head, rows, {true, false});
      if (!live.empty()) add_scores(part, w, head, live, span);
    }
  }
}

// The careful path: the same sums by the definition.
HWY_NOINLINE inline void define_bias(const BackwardCall& c, const BiasPart& part,
                                     std::span<double> sums) {
  const std::int64_t columns = part.keys;
  for (std::int64_t b = part.batches.begin; b < part.batches.end; ++b)
    for (std::int64_t h = part.heads.begin; h < part.heads.end; ++h) {
      core::reference::HeadGradients head;
      head.d_score = [&](std::int64_t i, std::int64_t j, double x) {
        if (!part.rows.contains(i)) return;
        const std::int64_t row = part.by_row ? i - part.rows.begin : 0;
        sums[std::size_t(row * columns + (part.by_key ? j : 0))] += x;
      };
      core::reference::add_head(c.p, c.g, b, h, head);
    }
}

// Rows of dBias as sums over lanes, or lane by lane; false if one is not finite.
inline bool collect(const BiasPart& part, std::span<double> sums) {
  bool finite = true;
  for (std::int64_t j = 0; j < part.keys; ++j) {
    const std::int64_t lanes = part.by_row ? part.rows.size() : kSpan;
    for (std::int64_t i = 0; i < lanes; ++i) {
      const double x = *part.at(j, i);
      sums[std::size_t((part.by_row ? i : 0) * part.keys + j)] += x;
      finite = finite && std::isfinite(x);
    }
  }
  return finite;
}

HWY_NOINLINE inline void differentiate_bias(Call& call, int worker) {
  const BackwardCall c{call.problem, *call.gradients};
  BackwardScratch w(call, call.of_worker(worker));
  call.tasks.work(worker, [&](std::int64_t task) {
    const BiasPart part = bias_part(c, task, w.bias_sums);
    std::fill_n(part.sums, part.keys * kSpan, 0.f);
    bool sound = true;
    for (std::int64_t b = part.batches.begin; b < part.batches.end; ++b)
      for (std::int64_t h = part.heads.begin; h < part.heads.end && sound; ++h) {
        const Head head(c.p, b * c.p.heads + h);
        sound = !is_lost(c.p, head);
        if (sound) sum_bias(c, w, part, head);
      }
    const std::int64_t rows = part.by_row ? part.rows.size() : 1;
    std::vector<double> sums(std::size_t(rows * part.keys));
    if (!sound || !collect(part, sums)) {
      std::fill(sums.begin(), sums.end(), 0.);
      define_bias(c, part, sums);
    }
    const core::Index4 at{c.g.d_bias.shape[0] == 1 ? 0 : part.batches.begin,
                          c.g.d_bias.shape[1] == 1 ? 0 : part.heads.begin,
                          part.by_row ? part.rows.begin : 0, 0};
    for (std::int64_t i = 0; i < rows; ++i)
      store_gradient(c.g.d_bias, {at[0], at[1], at[2] + i, 0},
                     std::span(sums).subspan(std::size_t(i * part.keys), std::size_t(part.keys)),
                     c.g.accumulate);
  });
}

// d_sink of head h: exp(sink - lse) (dLSE - <dO, O>) summed over the rows that know something.
inline double sum_sink(const BackwardCall& c, std::int64_t h) {
  const Problem& p = c.p;
  const double sink = p.sink.load(h);
  std::vector<double> out(std::size_t(p.value_dim)), d_out(out.size());
  double sum = 0;
  for (std::int64_t b = 0; b < p.batch && sink != -double(kInfinity); ++b) {
    const Sequence s = p.sequence(b);
    for (std::int64_t row = s.q_begin; row < s.q_begin + s.queries; ++row) {
      const double lse = p.lse.load(s.q_batch, h, row);
      if (std::isinf(lse)) continue;
      core::load_row(p.out, {s.q_batch, row, h, 0}, out);
      core::load_row(c.g.d_out, {s.q_batch, row, h, 0}, d_out);
      double d_row = c.g.d_lse.present() ? c.g.d_lse.load(s.q_batch, h, row) : 0;
      for (std::size_t n = 0; n < out.size(); ++n) d_row -= out[n] * d_out[n];
      sum += std::exp(sink - lse) * d_row;
    }
  }
  return sum;
}

// The careful path: the same sum by the definition.
HWY_NOINLINE inline double define_sink(const BackwardCall& c, std::int64_t h) {
  core::reference::HeadGradients sums;
  for (std::int64_t b = 0; b < c.p.batch; ++b) core::reference::add_head(c.p, c.g, b, h, sums);
  return sums.d_sink;
}

// The sink is a key whose value is 0. A sum that is not finite may be so by what nobody asked for:
// dO of a row that sees no key, or an element of out that its type could not hold.
HWY_NOINLINE inline void differentiate_sink(Call& call, int worker) {
  const BackwardCall c{call.problem, *call.gradients};
  call.tasks.work(worker, [&](std::int64_t h) {
    double sum = sum_sink(c, h);
    if (!std::isfinite(sum)) sum = define_sink(c, h);
    store_gradient(c.g.d_sink, {h, 0, 0, 0}, std::span(&sum, 1), c.g.accumulate);
  });
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
