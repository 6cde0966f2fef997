#include "core/reference.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/reference_head.hpp"

namespace tessera::core::reference {
namespace {

// Rows of out and lse that belong to no sequence say what a row without keys says.
void clear(const Problem& p) {
  const std::vector<double> zeros(std::size_t(p.value_dim));
  for (std::int64_t a = 0; a < p.q.shape[0]; ++a)
    for (std::int64_t row = 0; row < p.q.shape[1]; ++row)
      for (std::int64_t h = 0; h < p.heads; ++h) {
        if (p.out.present()) store_row(p.out, {a, row, h}, zeros);
        if (p.lse.present()) p.lse.store({a, h, row}, -kInfinity);
      }
}

// The row i, finished but for its storage. Source: Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018.
template <class Seen> State finished_row(Head& head, std::int64_t i, Seen seen) {
  State state = head.attend(i, seen);
  state.absorb(head.sink());
  return state;
}

// The largest |score| of a row among those that weigh. A weight below 2^-24 of the largest is lost
// in float32, and so is any error of its score: a bias of -3e38 must not widen the error bound.
double largest_score(std::span<const double> scores) {
  const double kLost = 24 * std::log(2.);
  double m = -kInfinity, largest = 0;
  for (const double s : scores)
    if (std::isfinite(s)) m = std::max(m, s);
  for (const double s : scores)
    if (std::isfinite(s) && s >= m - kLost) largest = std::max(largest, std::abs(s));
  return largest;
}

}  // namespace

double forward_row(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t i,
                   std::span<double> out) {
  Head head(p, b, h);
  const State state = finished_row(head, i, [](double) {});
  state.finish(out);
  return state.lse();
}

double forward(const Problem& p) {
  double largest = 0;
  std::vector<double> scores, out(std::size_t(p.value_dim));
  if (p.packed_queries() || p.seqused_q.present()) clear(p);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      Head head(p, b, h);
      for (std::int64_t i = 0; i < head.queries(); ++i) {
        scores.clear();
        const State row = finished_row(head, i, [&](double s) { scores.push_back(s); });
        row.finish(out);
        if (p.out.present()) store_row(p.out, head.query_place(i), out);
        if (p.lse.present()) p.lse.store(head.lse_place(i), row.lse());
        largest = std::max(largest, largest_score(scores));
      }
    }
  return largest;
}

}  // namespace tessera::core::reference
