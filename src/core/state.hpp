// What is known of a row after some of its keys: the algebra behind online softmax.
//
//   m  the largest score seen     l  sum of exp(s - m)     o  sum of exp(s - m) v
//
// merge is associative and commutative up to rounding, and the empty state is its identity; blocks
// of keys, splits, cascades and rings are all this one operation (Milakov and Gimelshein 2018;
// Dao 2023).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace tessera::core {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct State {
  double m = -kInfinity, l = 0;
  std::vector<double> o;

  explicit State(std::size_t dim) : o(dim, 0.) {}

  // The state of no key, in the memory of this one.
  void clear() {
    m = -kInfinity;
    l = 0;
    std::fill(o.begin(), o.end(), 0.);
  }

  // What a finished row (o normalised, lse) says of its keys. Some writers mark a row without keys
  // by lse = +inf: both infinities mean "empty", whatever its o holds.
  static State finished(double lse, std::span<const double> o) {
    State state(o.size());
    state.become(lse, o);
    return state;
  }
  void become(double lse, std::span<const double> row) {
    clear();
    if (std::isinf(lse)) return;
    m = lse;
    l = 1;
    std::copy(row.begin(), row.end(), o.begin());
  }

  bool empty() const { return l == 0; }

  // A row that has seen nothing has m = -inf; measured from 0, its exponents are all -inf.
  static double base(double m) { return m == -kInfinity ? 0 : m; }

  // The factor that moves sums measured from `m` to the maximum `to`.
  static double rescale(double m, double to) { return std::exp(m - base(to)); }

  // `x` times the weight of a key that is seen. Such a weight is positive even where double loses
  // it, so that an infinity stays one, whatever the order of the keys.
  static double weighed(double weight, double x) {
    return weight == 0 && std::isinf(x) ? x : weight * x;
  }

  // A key of score s, without its value: the sink, or a pair that dropout removes. -inf hides it.
  // Returns exp(s - m).
  double absorb(double s) {
    if (s == -kInfinity) return 0;
    raise(s);
    const double p = std::exp(s - m);
    l += p;
    return p;
  }

  // A key of score s; its value counts `weight` times and is not read if that is 0.
  void absorb(double s, double weight, std::span<const double> v) {
    const double p = absorb(s) * weight;
    if (s == -kInfinity || weight == 0) return;
    for (std::size_t d = 0; d < o.size(); ++d) o[d] += weighed(p, v[d]);
  }

  // The state of both sets of keys, which share none.
  void merge(const State& other) {
    raise(other.m);
    const double factor = rescale(other.m, m);
    l += factor * other.l;
    for (std::size_t d = 0; d < o.size(); ++d) o[d] += weighed(factor, other.o[d]);
  }

  // The natural logarithm of the sum of exp(score); -inf if there was none.
  double lse() const { return empty() ? -kInfinity : m + std::log(l); }

  // The row of the output: the weighted mean of the values, 0 if there was none.
  void finish(std::span<double> out) const {
    for (std::size_t d = 0; d < o.size(); ++d) out[d] = empty() ? 0 : o[d] / l;
  }

 private:
  // Measures the sums from the larger of m and s. A NaN passes the test, so that it stays visible.
  void raise(double s) {
    if (s <= m) return;
    const double factor = rescale(m, s);
    l *= factor;
    for (double& x : o) x = weighed(factor, x);
    m = s;
  }
};

}  // namespace tessera::core
