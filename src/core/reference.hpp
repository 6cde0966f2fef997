// The definition of attention, in double precision, forwards and backwards. Written to be read:
// every other backend is compared with it.
#pragma once
#include <cstdint>
#include <span>

#include "core/gradients.hpp"
#include "core/problem.hpp"

namespace tessera::core::reference {

// Computes out and lse (where present) of the whole problem; returns the largest |score| over
// visible pairs, the bias included, or 0 if there are none. Scores that are not finite, or whose
// weight is below 2^-24 of the largest of their row, do not count.
double forward(const Problem& p);

// One row: query i of head h of sequence b. out has value_dim elements. Returns lse.
// The careful path of the tiled backends is this function.
double forward_row(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t i,
                   std::span<double> out);

// The gradients of the whole problem. out and lse are computed anew, so those of the problem are
// not looked at. What accumulates is added in double and rounded once.
// `terms`, if given, receives how large their terms are.
void backward(const Problem& p, const Gradients& g, GradientTerms* terms = nullptr);

}  // namespace tessera::core::reference
