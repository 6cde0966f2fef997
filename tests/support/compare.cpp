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

double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double y : x)
    if (std::isfinite(y)) most = std::max(most, std::abs(y));
  return most;
}

double root_mean_square(const std::vector<double>& x) {
  double sum = 0, count = 0;
  for (const double y : x)
    if (std::isfinite(y)) sum += y * y, ++count;
  return count == 0 ? 0 : std::sqrt(sum / count);
}

// What the type cannot hold counts as what it rounds to.
std::vector<double> representable(const Array& definition, DType dtype) {
  std::vector<double> want = values(definition);
  for (double& x : want)
    if (std::isinf(core::rounded(dtype, x))) x = core::rounded(dtype, x);
  return want;
}

// A relative bound, and the sizes beside ||want|| and the root mean square that errors, of all and
// of an element, may be relative to.
struct Allowance {
  double bound, size = 0, element = 0;
};

testing::AssertionResult agrees(const Pair& pair, DType dtype, const Allowance& of_all) {
  const double least = std::max(root_mean_square(pair.want), of_all.element);
  const auto allowed = [&](double x) {
    return std::max(kElementFactor * of_all.bound * std::max(std::abs(x), least),
                    core::half_unit(dtype, x));
  };
  if (const auto bad = pair.first_bad(allowed))
    return pair.failure(*bad, allowed(pair.want[*bad]), "of this element");
  if (core::within(dtype, pair.got, pair.want, of_all.bound, of_all.size))
    return testing::AssertionSuccess();
  const core::Deviation off = core::deviation(pair.got, pair.want, of_all.size);
  return pair.failure(off.worst, of_all.bound,
                      fmt::format("relative error {:.3g} of all", off.relative));
}

// `lost`: of each element, besides the relative bound.
testing::AssertionResult out_agrees(const Array& out, const Array& definition, double bound,
                                    double lost) {
  const std::vector<double> got = values(out), want = representable(definition, out.dtype());
  return agrees({"out", out.shape(), got, want}, out.dtype(), {core::out_bound(bound, lost, want)});
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

core::ScoreSize score_size(const Inputs& in, const Outputs& definition) {
  return {definition.score_max,
          core::largest_product(in.q.tensor(), in.k.tensor(), double{in.of.scale},
                                in.of.dense() ? core::Rows::kPaired : core::Rows::kAny)};
}

core::OperandSizes operand_sizes(const Inputs& in) {
  const double scale{in.of.scale};
  return {
      .scale = std::isnan(scale) ? 1 / std::sqrt(double(in.of.dim)) : scale,
      .dropout = 1 / (1 - double{in.of.dropout}),
      .q = core::longest_row(in.q.tensor()),
      .k = core::longest_row(in.k.tensor()),
      .v = std::max(core::longest_row(in.v.tensor()), core::longest_row(in.state_out.tensor()))};
}

testing::AssertionResult agree(const Outputs& got, const Outputs& definition, const Inputs& inputs,
                               const Backend& on, double slack) {
  const Case& c = inputs.of;
  const core::ScoreSize size = score_size(inputs, definition);
  auto result =
      out_agrees(got.out, definition.out, slack * core::bound(c.out_dtype(), c.keys, size),
                 slack * core::lost_of_out(c.dtype, c.keys, operand_sizes(inputs)));
  if (result && got.lse.present())
    result = lse_agrees(got.lse, definition.lse, slack * core::lse_bound(c.keys, size));
  return result ? result : result << "\n  " << on.command(c);
}

testing::AssertionResult gradient_agrees(const Array& gradient, const Array& definition,
                                         const core::GradientMeasure& measure,
                                         std::string_view name, double slack) {
  const std::vector<double> got = values(gradient);
  const std::vector<double> want = representable(definition, gradient.dtype());
  const double size = core::gradient_size(measure, want);
  // A few rows or pairs may have most of the weight, and their elements have terms to match.
  const double element =
      std::max(size / std::sqrt(std::max(1., double(want.size()))), largest(want) / 8);
  return agrees({name, gradient.shape(), got, want}, gradient.dtype(),
                {slack * core::gradient_bound(measure, want), size, element});
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
