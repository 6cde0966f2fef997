// With P = exp(s - lse), Z the dropout weight of a pair and dP = Z <dO_i, v_j>:
//
//   dv_j += P Z dO_i             dS = P (dP - <dO_i, O_i> + dLSE_i)
//   dbias += dS                  dq_i += dS (ds/d<q,k>) k_j        dk_j += dS (ds/d<q,k>) q_i
//   dsink += exp(sink - lse) (dLSE_i - <dO_i, O_i>)
//
// Source: Dao, "FlashAttention-2", 2023, section 2.3; the sink is a key whose value is 0.
#include <cmath>
#include <cstddef>
#include <vector>

#include "core/reference.hpp"
#include "core/reference_head.hpp"
#include "core/reference_terms.hpp"

namespace tessera::core::reference {
namespace {

// A gradient while it is summed: in double, whatever the type that it is stored in. Dimensions of
// size 1 receive the sum over all that was broadcast from them.
class Sum {
 public:
  // All memory before the first write: a gradient that is added to cannot be had twice.
  explicit Sum(const Tensor& to) : to_(to), shape_(to.shape) {
    if (!to.present()) return;
    sums_.resize(std::size_t(shape_[0] * shape_[1] * shape_[2] * shape_[3]));
    there_.resize(std::size_t(shape_[3]));
  }

  void add(const Index4& at, double x) {
    if (to_.present()) sums_[position(at)] += x;
  }
  void add(const Index4& row, double factor, std::span<const double> x) {
    if (!to_.present()) return;
    double* sums = sums_.data() + position(row);
    for (std::size_t d = 0; d < x.size(); ++d) sums[d] += factor * x[d];
  }

  // Writes the sums, or adds them to what is there.
  void store(bool accumulate) {
    const std::int64_t size = shape_[3];
    for (std::int64_t row = 0; row * size < std::int64_t(sums_.size()); ++row) {
      const Index4 at{row / (shape_[2] * shape_[1]), row / shape_[2] % shape_[1], row % shape_[2]};
      const auto sums = std::span(sums_).subspan(std::size_t(row * size), std::size_t(size));
      if (accumulate) load_row(to_, at, there_);
      for (std::size_t d = 0; accumulate && d < sums.size(); ++d) sums[d] += there_[d];
      store_row(to_, at, sums);
    }
  }

 private:
  std::size_t position(const Index4& at) const {
    std::int64_t position = 0;
    for (std::size_t n = 0; n < 4; ++n)
      position = position * shape_[n] + (shape_[n] == 1 ? 0 : at[n]);
    return std::size_t(position);
  }

  const Tensor& to_;
  Index4 shape_;
  std::vector<double> sums_, there_;
};

class Backward {
 public:
  Backward(const Problem& p, const Gradients& g, TermSums* terms)
      : p_(p),
        g_(g),
        terms_(terms),
        dq_(g.dq),
        dk_(g.dk),
        dv_(g.dv),
        d_bias_(g.d_bias),
        d_sink_(g.d_sink),
        out_(std::size_t(p.value_dim)),
        d_out_(out_.size()),
        value_(out_.size()) {}

  void add_row(Head& head, std::int64_t b, std::int64_t h, std::int64_t i) {
    State row = head.attend(i, [](double) {});
    const bool sees = !row.empty();
    row.absorb(head.sink());
    if (row.empty()) return;  // every gradient is 0, even where d_out is NaN
    row.finish(out_);
    load_row(g_.d_out, head.query_place(i), d_out_);
    const double lse = row.lse();
    const double d_lse = g_.d_lse.present() ? g_.d_lse.load(head.lse_place(i)) : 0;
    const double d_row = d_lse - (sees ? dot(d_out_, out_) : 0);
    const double sink = std::exp(head.sink() - lse);
    d_sink_.add({h}, head.sink() == -kInfinity ? 0 : sink * d_row);
    if (terms_ != nullptr) terms_->begin_row(sees ? square_of_terms(d_out_, out_) : 0, d_lse);
    head.each_visible(i, [&](std::int64_t j, Score score) {
      const double probability = std::exp(score.value - lse);
      const double d_score = probability * (add_value(head, i, j, probability) + d_row);
      d_bias_.add({b, h, i, j}, d_score);
      dq_.add(head.query_place(i), d_score * score.slope, head.key());
      dk_.add(head.key_place(j), d_score * score.slope, head.query());
      if (terms_ != nullptr) add_terms(head, probability, head.dropout_weight(i, j));
    });
    if (terms_ != nullptr) terms_->end_row(sink);
  }

  void store() {
    for (Sum* sum : {&dq_, &dk_, &dv_, &d_bias_, &d_sink_}) sum->store(g_.accumulate);
  }

 private:
  // Adds to dv_j and returns dP of the pair; a value that dropout removes is not looked at.
  double add_value(Head& head, std::int64_t i, std::int64_t j, double probability) {
    const double weight = head.dropout_weight(i, j);
    if (weight == 0) return 0;
    dv_.add(head.key_place(j), probability * weight, d_out_);
    load_row(p_.v, head.key_place(j), value_);
    return weight * dot(d_out_, value_);
  }

  // Of the pair whose value add_value() has read.
  void add_terms(Head& head, double probability, double weight) {
    const double d_probability =
        weight == 0 ? 0 : weight * weight * square_of_terms(d_out_, value_);
    terms_->add_pair(probability, d_probability, head.query(), head.key());
    terms_->add_value(probability * weight, d_out_);
  }

  const Problem& p_;
  const Gradients& g_;
  TermSums* terms_;
  Sum dq_, dk_, dv_, d_bias_, d_sink_;
  std::vector<double> out_, d_out_, value_;
};

}  // namespace

void backward(const Problem& p, const Gradients& g, GradientTerms* terms) {
  TermSums term_sums(p, g);
  Backward sums(p, g, terms == nullptr ? nullptr : &term_sums);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      Head head(p, b, h);
      for (std::int64_t i = 0; i < head.queries(); ++i) sums.add_row(head, b, h, i);
    }
  sums.store();
  if (terms != nullptr) *terms = term_sums.norms();
}

}  // namespace tessera::core::reference
