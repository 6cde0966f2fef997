#include "core/reference_careful.hpp"

#include <cmath>
#include <cstddef>

#include "core/reference_head.hpp"

namespace tessera::core::reference {
namespace {

void add(std::vector<double>& sums, std::int64_t row, double factor, std::span<const double> x) {
  if (sums.empty()) return;
  double* const to = sums.data() + std::size_t(row) * x.size();
  for (std::size_t d = 0; d < x.size(); ++d) to[d] += factor * x[d];
}

}  // namespace

// The equations are those of reference_backward.cpp.
void add_head(const Problem& p, const Gradients& g, std::int64_t b, std::int64_t h,
              HeadGradients& sums) {
  Head head(p, b, h);
  std::vector<double> out(std::size_t(p.value_dim)), d_out(out.size()), value(out.size());
  for (std::int64_t i = 0; i < head.queries(); ++i) {
    State row = head.attend(i, [](double) {});
    const bool sees = !row.empty();
    row.absorb(head.sink());
    if (row.empty()) continue;
    row.finish(out);
    load_row(g.d_out, head.query_place(i), d_out);
    const double lse = row.lse();
    const double d_lse = g.d_lse.present() ? g.d_lse.load(head.lse_place(i)) : 0;
    const double d_row = d_lse - (sees ? dot(d_out, out) : 0);
    if (head.sink() != -kInfinity) sums.d_sink += std::exp(head.sink() - lse) * d_row;
    head.each_visible(i, [&](std::int64_t j, Score score) {
      const double probability = std::exp(score.value - lse), weight = head.dropout_weight(i, j);
      double d_probability = 0;
      if (weight != 0) {
        load_row(p.v, head.key_place(j), value);
        d_probability = weight * dot(d_out, value);
      }
      const double d_value = probability * (d_probability + d_row);
      if (sums.d_score) sums.d_score(i, j, d_value);
      const double d_score = d_value * score.slope;
      add(sums.dq, i, d_score, head.key());
      if (!sums.keys.contains(j)) return;
      if (weight != 0) add(sums.dv, j - sums.keys.begin, probability * weight, d_out);
      add(sums.dk, j - sums.keys.begin, d_score, head.query());
    });
  }
}

}  // namespace tessera::core::reference
