// A result against the definition: how far it is, and how far it may be.
#pragma once
#include "core/tensor.hpp"
#include "core/tolerance.hpp"

namespace tessera::tool {

struct Verdict {
  double max_error = 0;  // the largest |x - ref|
  double relative_error =
      0;             // out: ||x - ref|| / ||ref||; lse: the largest |x - ref| / max(1, |ref|)
  double bound = 0;  // of the relative error
  bool pass = false;
};

// The bounds are those of core/tolerance.hpp for inputs of type `dtype`; `keys` is Lk.
struct Measure {
  core::DType dtype;
  std::int64_t keys;
  core::ScoreSize score;
  double lost = 0;  // core::lost_of_out()
};
Verdict judge_out(const core::Tensor& x, const core::Tensor& ref, const Measure& measure);
Verdict judge_lse(const core::Tensor& x, const core::Tensor& ref, const Measure& measure);

// A gradient; its error is relative to core::gradient_size.
Verdict judge_gradient(const core::Tensor& x, const core::Tensor& ref,
                       const core::GradientMeasure& measure);

}  // namespace tessera::tool
