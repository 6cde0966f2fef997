// One head of one sequence as both passes see it: which keys a query sees, and with which scores.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/problem.hpp"
#include "core/state.hpp"

namespace tessera::core::reference {

struct Score {
  double value;  // of the pair, with everything that is added to it
  double slope;  // d value / d <q_i, k_j>
};

// Four sums, so that an addition need not wait for the one before it.
inline double dot(std::span<const double> x, std::span<const double> y) {
  double sums[4] = {};
  std::size_t d = 0;
  for (; d + 4 <= x.size(); d += 4)
    for (std::size_t n = 0; n < 4; ++n) sums[n] += x[d + n] * y[d + n];
  for (; d < x.size(); ++d) sums[0] += x[d] * y[d];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Head h of sequence b. Positions i and j are counted within the sequence.
class Head {
 public:
  Head(const Problem& p, std::int64_t b, std::int64_t h)
      : p_(p),
        b_(b),
        h_(h),
        sequence_(p.sequence(b)),
        query_(std::size_t(p.dim)),
        key_(std::size_t(p.dim)),
        value_(std::size_t(p.value_dim)) {}

  std::int64_t queries() const { return sequence_.queries; }

  // Where query i lies: out and the gradients of q and out, at [batch, row, head].
  Index4 query_place(std::int64_t i) const {
    return {sequence_.q_batch, sequence_.q_begin + i, h_, 0};
  }
  // The same in lse: [batch, head, row].
  Index4 lse_place(std::int64_t i) const {
    return {sequence_.q_batch, h_, sequence_.q_begin + i, 0};
  }
  Index4 key_place(std::int64_t j) const {
    const KeyPlace place = p_.place(sequence_, b_, j);
    return {place.batch, place.row, p_.kv_head(h_), 0};
  }

  // Calls visit(j, score) for each key j that query i sees. Only -inf and the masks hide a key; a
  // NaN stays visible. Nothing of a hidden key reaches the visit, whatever its memory holds.
  template <class Visit> void each_visible(std::int64_t i, Visit visit) {
    load_row(p_.q, query_place(i), query_);
    const Range keys = sequence_.keys & sequence_.band.seen_by_any({i, i + 1});
    for (std::int64_t j = keys.begin; j < keys.end; ++j) {
      if (p_.mask.present() && p_.mask.load(b_, h_, i, j) == 0) continue;
      const double bias = p_.bias.present() ? p_.bias.load(b_, h_, i, j) : 0;
      if (bias == -kInfinity) continue;
      load_row(p_.k, key_place(j), key_);
      Score score = scaled_and_capped();
      score.value += bias - distance_penalty(i, j);
      if (score.value != -kInfinity) visit(j, score);
    }
  }

  // What query i knows after the state it starts from and its visible keys, each of which seen(s)
  // is told of; the sink is not among them.
  template <class Seen> State attend(std::int64_t i, Seen seen) {
    State state = start(i);
    each_visible(i, [&](std::int64_t j, Score score) {
      seen(score.value);
      const double weight = dropout_weight(i, j);
      if (weight != 0) load_row(p_.v, key_place(j), value_);
      state.absorb(score.value, weight, value_);
    });
    return state;
  }

  // The logit that is added to the denominator; -inf where there is none.
  double sink() const { return p_.sink.present() ? p_.sink.load(h_) : -kInfinity; }

  // 0 for a pair that dropout removes.
  double dropout_weight(std::int64_t i, std::int64_t j) const {
    if (p_.dropout.p == 0) return 1;
    return p_.dropout.keeps(b_ * p_.heads + h_, i, j) ? p_.dropout.factor() : 0;
  }

  // Rows of the pair that is being visited.
  std::span<const double> query() const { return query_; }
  std::span<const double> key() const { return key_; }

 private:
  // s = scale <q, k>;  s = softcap tanh(s / softcap)
  Score scaled_and_capped() const {
    const double scale = p_.scale, cap = p_.softcap, s = scale * dot(query_, key_);
    if (cap == 0) return {s, scale};
    const double t = std::tanh(s / cap);
    return {cap * t, scale * (1 - t * t)};
  }

  // ALiBi: alibi |i + offset - j|
  double distance_penalty(std::int64_t i, std::int64_t j) const {
    if (!p_.alibi.present()) return 0;
    return p_.alibi.load(b_, h_) * std::abs(double(i + sequence_.band.offset - j));
  }

  State start(std::int64_t i) {
    if (!p_.state_lse.present()) return State(value_.size());
    load_row(p_.state_out, query_place(i), value_);
    return State::finished(p_.state_lse.load(lse_place(i)), value_);
  }

  const Problem& p_;
  std::int64_t b_, h_;
  Sequence sequence_;
  std::vector<double> query_, key_, value_;
};

}  // namespace tessera::core::reference
