// How large the terms of gradients are: against the whole matrix, and for N(0, 1) inputs.
#include <gtest/gtest.h>

#include <cmath>

#include "core/tolerance.hpp"
#include "support/reference_gradients.hpp"

namespace tessera::test {
namespace {

using core::Gradient;
using core::GradientTerms;
using core::TermNorms;
using core::reference::backward;

double sq(double x) { return x * x; }

// What each pair of a head weighs.
using Matrix = std::vector<std::vector<double>>;

// The squares, from a matrix of weights P Z that is formed whole: dense, without a sink.
struct Squares {
  const Call& call;
  const Backward& g;
  const Matrix weights;  // P of the pairs of one (batch, head)
  std::int64_t b, h;

  double scale() const { return double(call.scalars.scale); }
  double row_terms(std::int64_t i) const {
    double sum = 0;
    for (std::int64_t d = 0; d < call.out.shape()[3]; ++d)
      sum += sq(g.d_out.at(b, i, h, d) * call.out.at(b, i, h, d));
    return sum;
  }
  double pair_terms(std::int64_t i, std::int64_t j, std::int64_t kh) const {
    double sum = 0;
    for (std::int64_t d = 0; d < call.out.shape()[3]; ++d)
      sum += sq(g.d_out.at(b, i, h, d) * call.v.at(b, j, kh, d));
    return sum;
  }
};

double norm_of_row(const Array& a, const Index4& at) {
  double sum = 0;
  for (std::int64_t d = 0; d < a.shape()[3]; ++d) sum += sq(a.at(at[0], at[1], at[2], d));
  return sum;
}

// Over pairs P^2 a^2 scale^2 k^2, and over rows (b^2 + dlse^2) |sum P scale k|^2.
double terms_of_dq(const Squares& s, std::int64_t kh, bool out_alone) {
  double sum = 0;
  for (std::int64_t i = 0; i < std::int64_t(s.weights.size()); ++i) {
    const auto& p = s.weights[std::size_t(i)];
    const double row = s.row_terms(i), d_lse = s.g.d_lse.at(s.b, s.h, i);
    for (std::int64_t d = 0; d < s.call.k.shape()[3]; ++d) {
      double mean = 0;
      for (std::int64_t j = 0; j < std::int64_t(p.size()); ++j) {
        const double k = s.scale() * s.call.k.at(s.b, j, kh, d);
        mean += p[std::size_t(j)] * k;
        if (!out_alone) sum += sq(p[std::size_t(j)] * k) * s.pair_terms(i, j, kh);
      }
      sum += (row + (out_alone ? 0 : sq(d_lse))) * sq(mean);
    }
  }
  return sum;
}

double terms_of_dk(const Squares& s, std::int64_t kh, bool out_alone) {
  double sum = 0;
  for (std::int64_t i = 0; i < std::int64_t(s.weights.size()); ++i) {
    const auto& p = s.weights[std::size_t(i)];
    const double row = s.row_terms(i), d_lse = s.g.d_lse.at(s.b, s.h, i);
    const double query = sq(s.scale()) * norm_of_row(s.call.q, {s.b, i, s.h});
    for (std::int64_t j = 0; j < std::int64_t(p.size()); ++j)
      sum += sq(p[std::size_t(j)]) * query *
             (row + (out_alone ? 0 : sq(d_lse) + s.pair_terms(i, j, kh)));
  }
  return sum;
}

Matrix weights_of(const Call& call, std::int64_t b, std::int64_t h, std::int64_t kh) {
  Matrix p(std::size_t(call.q.shape()[1]));
  for (std::int64_t i = 0; i < call.q.shape()[1]; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < call.k.shape()[1]; ++j) {
      double s = 0;
      for (std::int64_t d = 0; d < call.k.shape()[3]; ++d)
        s += call.q.at(b, i, h, d) * call.k.at(b, j, kh, d);
      p[std::size_t(i)].push_back(std::exp(double(call.scalars.scale) * s));
      sum += p[std::size_t(i)].back();
    }
    for (double& x : p[std::size_t(i)]) x /= sum;
  }
  return p;
}

TEST(GradientTerms, AreThoseOfTheWholeMatrix) {
  Call call = plain_call({2, 3, 5, 4, 2, 3, 2});
  const Backward g = every_gradient(call, 3);
  core::reference::forward(call.problem());
  GradientTerms terms;
  backward(call.problem(), g.gradients(), &terms);
  double dq[2] = {}, dk[2] = {};
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 4; ++h) {
      const Squares s{call, g, weights_of(call, b, h, h / 2), b, h};
      for (const bool out_alone : {false, true}) {
        dq[out_alone] += terms_of_dq(s, h / 2, out_alone);
        dk[out_alone] += terms_of_dk(s, h / 2, out_alone);
      }
    }
  const TermNorms &q = terms[std::size_t(Gradient::kQ)], &k = terms[std::size_t(Gradient::kK)];
  EXPECT_NEAR(q.all / std::sqrt(dq[0]), 1, 1e-6);
  EXPECT_NEAR(q.out / std::sqrt(dq[1]), 1, 1e-6);
  EXPECT_NEAR(k.all / std::sqrt(dk[0]), 1, 1e-6);
  EXPECT_NEAR(k.out / std::sqrt(dk[1]), 1, 1e-6);
}

// Within the conditions of the table they change nothing: half of them is less than the gradient.
TEST(GradientTerms, OfNormalInputsAreAboutTheGradient) {
  for (const std::int64_t keys : {16, 64, 256}) {
    Call call = plain_call({1, 48, keys, 2, 1, 64, 64});
    call.scalars.scale = 0.125f;
    const Backward g = every_gradient(call, 1);
    GradientTerms terms;
    backward(call.problem(), g.gradients(), &terms);
    for (const Gradient of : {Gradient::kQ, Gradient::kK, Gradient::kV}) {
      const Operand& operand = kOperands[std::size_t(of)];
      const double norm = std::sqrt(dot(g.*operand.gradient, g.*operand.gradient));
      const TermNorms& t = terms[std::size_t(of)];
      EXPECT_LT(0.5 * t.all, norm) << operand.name << ' ' << keys;
      EXPECT_GT(2 * t.all, norm) << operand.name << ' ' << keys;
      EXPECT_LE(t.out, 0.5 * norm) << operand.name << ' ' << keys;
    }
  }
}

// One visible key: dS is 0, by terms that are not.
TEST(GradientTerms, AreThereWhereTheyCancel) {
  Call call = plain_call({1, 4, 1, 1, 1, 8, 8});
  Backward g = every_gradient(call, 1);
  g.d_lse = Array();
  GradientTerms terms;
  backward(call.problem(), g.gradients(), &terms);
  EXPECT_EQ(dot(g.dq, g.dq), 0);
  EXPECT_GT(terms[std::size_t(Gradient::kQ)].all, 0.1);
  EXPECT_GT(terms[std::size_t(Gradient::kK)].out, 0.1);
}

TEST(GradientTerms, OfWhatIsNotFiniteOrNotSeenDoNotCount) {
  Call call = plain_call({1, 3, 4, 1, 1, 2, 2});
  call.scalars.right = 0;
  GradientTerms clean, some;
  backward(call.problem(), every_gradient(call, 1).gradients(), &clean);
  call.v.set({0, 3, 0, 0}, kNan);
  backward(call.problem(), every_gradient(call, 1).gradients(), &some);
  for (std::size_t n = 0; n < clean.size(); ++n) EXPECT_EQ(some[n].all, clean[n].all);
  call.v.set({0, 1, 0, 0}, kNan);
  backward(call.problem(), every_gradient(call, 1).gradients(), &some);
  for (const TermNorms& t : some) EXPECT_TRUE(std::isfinite(t.all) && std::isfinite(t.out));
}

}  // namespace
}  // namespace tessera::test
