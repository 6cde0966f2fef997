// The gradients of one query head in double precision: the careful path of the tiled backward pass.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/gradients.hpp"
#include "core/problem.hpp"

namespace tessera::core::reference {

struct HeadGradients {
  Range keys;                      // dk and dv are of these; others are not summed
  std::vector<double> dq, dk, dv;  // [queries][D], [keys][D], [keys][Dv]; empty ones are not wanted
  // Called with (i, j, dS) of each visible pair, if there is one; dS before the slope of the cap.
  std::function<void(std::int64_t, std::int64_t, double)> d_score;
  double d_sink = 0;
};

// Adds what the query head h of sequence b contributes.
void add_head(const Problem& p, const Gradients& g, std::int64_t b, std::int64_t h,
              HeadGradients& sums);

}  // namespace tessera::core::reference
