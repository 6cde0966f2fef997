// The workspace of the CPU backward pass: one description, by which it is planned and used.
#pragma once
#include <cstdint>

#include "plan/plan.hpp"

namespace tessera::plan {

// Where everything of one worker lies, in floats from the beginning of its part. Rows are padded to
// whole panels, heads to whole spans of two strips of queries.
struct BackwardLayout {
  std::int64_t dim = 0, value_dim = 0;  // of a padded row
  std::int64_t q = 0, d_out = 0, dq = 0, q_columns = 0, d_out_columns = 0, lse = 0, delta = 0;
  std::int64_t k = 0, v = 0, dk = 0, dv = 0;
  std::int64_t p = 0, ds = 0, s = 0, slope = 0, dp = 0, modifiers = 0, row = 0, bias_sums = 0;
  std::int64_t floats = 0;
};
BackwardLayout backward_layout(const core::Problem& problem, const Plan& plan,
                               std::int64_t bias_keys);

// Keys that the gradient of a bias distinguishes, if it is wanted.
inline std::int64_t bias_keys(const core::Gradients& g) {
  return g.d_bias.present() ? g.d_bias.shape[3] : 0;
}

// The gradient of a bias is summed by tasks of so many spans of queries for each of its heads.
inline std::int64_t bias_spans(const core::Gradients& g, std::int64_t span) {
  return (g.d_bias.shape[2] + span - 1) / span;
}

}  // namespace tessera::plan
