#include "support/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace tessera::test {

namespace {

// Of the bound of the norm, and of the larger of the element and the root mean square: a norm over
// many rows does not see a single bad element.
constexpr double kElementFactor = 16;

bool identical(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

bool within(double got, double want, double bound) {
  if (!core::same_kind(got, want)) return false;
  return !std::isfinite(want) || std::abs(got - want) <= bound;
}

Index4 place(const Index4& shape, std::size_t n) {
  Index4 i{};
  auto rest = std::int64_t(n);
  for (std::size_t axis = 4; axis-- > 0; rest /= shape[axis]) i[axis] = rest % shape[axis];
  return i;
}

// One tensor beside what it should be.
struct Pair {
  std::string_view name;
  const Index4& shape;
  const std::vector<double>&got, &want;

  testing::AssertionResult failure(std::size_t n, double bound, std::string_view why) const {
    return testing::AssertionFailure()
           << fmt::format("{}[{}] = {:.9g}, the definition {:.9g} (bound {:.3g}); {}", name,
                          fmt::join(place(shape, n), ", "), got[n], want[n], bound, why);
  }

  // The first element that is further off than `allowed(want)`, or of another kind.
  template <class Allowed> std::optional<std::size_t> first_bad(Allowed allowed) const {
    for (std::size_t n = 0; n < got.size(); ++n)
      if (!within(got[n], want[n], allowed(want[n]))) return n;
    return {};
  }
};

double root_mean_square(const std::vector<double>& x) {
  double sum = 0, count = 0;
  for (const double y : x)
    if (std::isfinite(y)) sum += y * y, ++count;
  return count == 0 ? 0 : std::sqrt(sum / count);
}

// ||x|| of row [b, i, h].
double norm_of_row(const Array& a, std::int64_t b, std::int64_t i, std::int64_t h) {
  double sum = 0;
  for (std::int64_t d = 0; d < a.shape()[3]; ++d) {
    const double x = a.at(b, i, h, d);
    sum += x * x;
  }
  return std::sqrt(sum);
}

double scale_of(const Case& c) {
  return std::isnan(c.scale) ? 1 / std::sqrt(double(c.dim)) : double{c.scale};
}

// The largest scale ||q|| ||k|| over visible pairs.
double largest_product(const Inputs& in) {
  const Case& c = in.of;
  double largest = 0;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      std::vector<double> q, k;
      for (std::int64_t i = 0; i < c.queries; ++i) q.push_back(norm_of_row(in.q, b, i, h));
      for (std::int64_t j = 0; j < c.keys; ++j) k.push_back(norm_of_row(in.k, b, j, h / c.group()));
      for (std::int64_t i = 0; i < c.queries; ++i)
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const double product = q[std::size_t(i)] * k[std::size_t(j)];
          if (product > largest && in.sees(b, h, i, j)) largest = product;
        }
    }
  return scale_of(c) * largest;
}

// S of the bound, for cases outside of the conditions of the table. A score that is small because
// its terms cancel, or because of the cap, has the error of its terms, which scale ||q|| ||k||
// bounds. N(0, 1) data at the default scale have sqrt(D) there: half of it is at most 8, where S
// begins to count, up to D = 256.
double score_size(const Inputs& in, double score_max) {
  return std::max(score_max, largest_product(in) / 2);
}

testing::AssertionResult out_agrees(const Array& out, const Array& definition, double bound) {
  const DType dtype = out.dtype();
  const std::vector<double> got = values(out);
  std::vector<double> want = values(definition);
  for (double& x : want)
    if (std::isinf(core::rounded(dtype, x))) x = core::rounded(dtype, x);
  const Pair pair{"out", out.shape(), got, want};
  const double rms = root_mean_square(want);
  const auto allowed = [&](double x) {
    return std::max(kElementFactor * bound * std::max(std::abs(x), rms), core::half_unit(dtype, x));
  };
  if (const auto bad = pair.first_bad(allowed))
    return pair.failure(*bad, allowed(want[*bad]), "of this element");
  if (core::within(dtype, got, want, bound)) return testing::AssertionSuccess();
  const core::Deviation off = core::deviation(got, want);
  return pair.failure(off.worst, bound, fmt::format("relative error {:.3g} of all", off.relative));
}

testing::AssertionResult lse_agrees(const Array& lse, const Array& definition, double bound) {
  const std::vector<double> got = values(lse), want = values(definition);
  const Pair pair{"lse", lse.shape(), got, want};
  const auto allowed = [bound](double x) { return bound * std::max(1., std::abs(x)); };
  if (const auto bad = pair.first_bad(allowed))
    return pair.failure(*bad, allowed(want[*bad]), "of this element");
  return testing::AssertionSuccess();
}

testing::AssertionResult equal_elements(const Array& a, const Array& b, std::string_view name) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.present() != b.present())
    return testing::AssertionFailure() << name << " has another shape or type";
  const std::vector<double> x = values(a), y = values(b);
  for (std::size_t n = 0; n < x.size(); ++n)
    if (!identical(x[n], y[n]))
      return testing::AssertionFailure()
             << fmt::format("{}[{}] = {:.9g} and {:.9g}: not the same bits", name,
                            fmt::join(place(a.shape(), n), ", "), x[n], y[n]);
  return testing::AssertionSuccess();
}

// How much smaller the outputs are than the terms of their sums, where the outputs are too few for
// their norm to be an average. B Hk Dv of them are independent; rows that see the same keys are
// not.
double cancellation(const Inputs& in, const Outputs& definition) {
  constexpr std::int64_t kMany = 16;
  if (in.of.batch * in.of.kv_heads * in.of.value_dim >= kMany) return 1;
  Inputs positive = in;
  positive.v.fill([&](const Index4& i) { return std::abs(in.v.at(i[0], i[1], i[2], i[3])); });
  const double terms = root_mean_square(values(define(positive).out));
  const double sums = root_mean_square(values(definition.out));
  return sums > 0 ? std::max(1., terms / sums) : 1;
}

}  // namespace

std::vector<double> values(const Array& a) {
  std::vector<double> result;
  if (!a.present()) return result;
  result.reserve(std::size_t(a.count()));
  a.for_each([&](const Index4& i) { result.push_back(a.at(i[0], i[1], i[2], i[3])); });
  return result;
}

core::Deviation deviation(const Array& got, const Array& want) {
  return core::deviation(values(got), values(want));
}

testing::AssertionResult agree(const Outputs& got, const Outputs& definition, const Inputs& inputs,
                               const Backend& on) {
  const Case& c = inputs.of;
  const double score = score_size(inputs, definition.score_max);
  const double bound = core::bound(c.dtype, c.keys, score);
  auto result = out_agrees(got.out, definition.out, bound);
  if (!result)
    if (const double factor = cancellation(inputs, definition); factor > 1)
      result = out_agrees(got.out, definition.out, factor * bound);
  if (result && got.lse.present()) {
    // Terms that cancel leave their error in an lse that is small.
    const bool cancels = score > definition.score_max;
    result = lse_agrees(got.lse, definition.lse,
                        cancels ? core::bound(DType::kFloat32, c.keys, score)
                                : core::lse_bound(c.keys, definition.score_max));
  }
  return result ? result : result << "\n  " << on.command(c);
}

testing::AssertionResult is_right(const Outputs& got, const Inputs& inputs, const Backend& on) {
  return agree(got, define(inputs), inputs, on);
}

testing::AssertionResult same_bits(const Array& a, const Array& b) {
  return equal_elements(a, b, "element");
}

testing::AssertionResult same_bits(const Outputs& a, const Outputs& b) {
  const auto out = equal_elements(a.out, b.out, "out");
  return out && a.lse.present() && b.lse.present() ? equal_elements(a.lse, b.lse, "lse") : out;
}

testing::AssertionResult same_row(const Outputs& a, const Outputs& b, const Index4& bih) {
  const auto [batch, i, h, unused] = bih;
  for (std::int64_t d = 0; d < a.out.shape()[3]; ++d)
    if (!identical(a.out.at(batch, i, h, d), b.out.at(batch, i, h, d)))
      return testing::AssertionFailure()
             << fmt::format("out[{}, {}, {}, {}] = {:.9g} and {:.9g}: not the same bits", batch, i,
                            h, d, a.out.at(batch, i, h, d), b.out.at(batch, i, h, d));
  if (a.lse.present() && !identical(a.lse.at(batch, h, i), b.lse.at(batch, h, i)))
    return testing::AssertionFailure() << fmt::format("lse[{}, {}, {}] differs", batch, h, i);
  return testing::AssertionSuccess();
}

}  // namespace tessera::test
