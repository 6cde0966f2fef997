// How large the terms are that the gradients of a call are summed from. docs/numerics.md derives
// what is counted and how.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "core/gradients.hpp"
#include "core/problem.hpp"

namespace tessera::core::reference {

// The norms of products, element by element: what a dot product would be were its terms of random
// sign.
inline double square_of_terms(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * y[d] * (x[d] * y[d]);
  return sum;
}
inline double square(std::span<const double> x) {
  double sum = 0;
  for (const double y : x) sum += y * y;
  return sum;
}

// Terms that are not finite do not count, as in the norms of tensors.
class TermSums {
 public:
  TermSums(const Problem& p, const Gradients& g)
      : scale_(p.scale), keys_are_one_(g.d_bias.shape[3] == 1), key_(std::size_t(p.dim)) {}

  // A row: `out` is the square of the terms of <d_out, out>.
  void begin_row(double out, double d_lse) {
    out_ = out;
    row_ = out + d_lse * d_lse;
    probability_ = 0;
    std::fill(key_.begin(), key_.end(), 0.);
  }

  // A pair: `probability` of its row, and the square of the terms of dP.
  void add_pair(double probability, double d_probability, std::span<const double> query,
                std::span<const double> key) {
    const double p2 = probability * probability;
    add(dq_.all, p2 * d_probability * scale_ * scale_ * square(key));
    add(dk_, p2, d_probability, scale_ * scale_ * square(query));
    add(d_bias_.all, p2 * d_probability);
    if (!keys_are_one_) add(d_bias_, p2, 0, 1);
    probability_ += probability;
    for (std::size_t d = 0; d < key.size(); ++d) key_[d] += probability * scale_ * key[d];
  }
  void add_value(double weight, std::span<const double> d_out) {
    add(dv_.all, weight * weight * square(d_out));
  }

  void end_row(double sink) {
    add(dq_, square(key_), 0, 1);
    if (keys_are_one_) add(d_bias_, probability_ * probability_, 0, 1);
    add(d_sink_, sink * sink, 0, 1);
  }

  GradientTerms norms() const {
    return {root(dq_), root(dk_), root(dv_), root(d_bias_), root(d_sink_)};
  }

 private:
  static void add(double& sum, double x) {
    if (std::isfinite(x)) sum += x;
  }
  // What a weight of that square makes of the row's terms, and of those of a pair.
  void add(TermNorms& sums, double weight, double pair, double factor) const {
    add(sums.all, weight * (row_ + pair) * factor);
    add(sums.out, weight * out_ * factor);
  }
  static TermNorms root(const TermNorms& s) { return {std::sqrt(s.all), std::sqrt(s.out)}; }

  double scale_;
  bool keys_are_one_;
  double out_ = 0, row_ = 0, probability_ = 0;
  std::vector<double> key_;
  TermNorms dq_, dk_, dv_, d_bias_, d_sink_;  // squares
};

}  // namespace tessera::core::reference
