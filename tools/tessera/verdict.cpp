#include "tools/tessera/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tools/tessera/array.hpp"

namespace tessera::tool {
namespace {

std::vector<double> elements(const core::Tensor& tensor) {
  std::vector<double> list;
  list.reserve(std::size_t(count(tensor)));
  for_each_index(tensor.shape, [&](const core::Index4& i) { list.push_back(load(tensor, i)); });
  return list;
}

// What the type cannot hold counts as what it rounds to.
std::vector<double> representable(const core::Tensor& ref, core::DType dtype) {
  std::vector<double> want = elements(ref);
  for (double& r : want)
    if (std::isinf(core::rounded(dtype, r))) r = core::rounded(dtype, r);
  return want;
}

double distance(double x, double ref) {
  if (!core::same_kind(x, ref)) return std::numeric_limits<double>::infinity();
  return std::isfinite(ref) ? std::abs(x - ref) : 0;
}

}  // namespace

Verdict judge_gradient(const core::Tensor& x, const core::Tensor& ref,
                       const core::GradientMeasure& measure) {
  const std::vector<double> got = elements(x), want = representable(ref, measure.gradient);
  const double bound = core::gradient_bound(measure, want),
               size = core::gradient_size(measure, want);
  const core::Deviation deviation = core::deviation(got, want, size);
  return {deviation.largest, deviation.relative, bound,
          core::within(measure.gradient, got, want, bound, size)};
}

Verdict judge_out(const core::Tensor& x, const core::Tensor& ref, const Measure& measure) {
  const std::vector<double> got = elements(x), want = representable(ref, measure.dtype);
  const core::Deviation deviation = core::deviation(got, want);
  const double bound =
      core::out_bound(core::bound(measure.dtype, measure.keys, measure.score), measure.lost, want);
  return {deviation.largest, deviation.relative, bound,
          core::within(measure.dtype, got, want, bound)};
}

Verdict judge_lse(const core::Tensor& x, const core::Tensor& ref, const Measure& measure) {
  Verdict verdict{.bound = core::lse_bound(measure.keys, measure.score)};
  for_each_index(ref.shape, [&](const core::Index4& i) {
    const double want = load(ref, i), error = distance(load(x, i), want);
    const double size = std::isfinite(want) ? std::max(1., std::abs(want)) : 1;
    verdict.max_error = std::max(verdict.max_error, error);
    verdict.relative_error = std::max(verdict.relative_error, error / size);
  });
  verdict.pass = verdict.relative_error <= verdict.bound;
  return verdict;
}

}  // namespace tessera::tool
