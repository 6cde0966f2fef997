// Is a result what the definition says? Where not: the first place, both values, the bound, and the
// command that computes it again.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/tolerance.hpp"
#include "core/underflow.hpp"
#include "support/backend.hpp"
#include "support/inputs.hpp"

namespace tessera::test {

// All elements in dense order, as doubles.
std::vector<double> values(const Array& a);

// core::deviation of two tensors of one shape.
core::Deviation deviation(const Array& got, const Array& want);

// What the bounds ask of a case; `definition` is its result by the reference.
core::ScoreSize score_size(const Inputs& in, const Outputs& definition);

// The sizes of what a call reads; of the forward pass alone.
core::OperandSizes operand_sizes(const Inputs& in);

// out and lse against the definition (in float64), within core::bound.
// `slack`: what the bounds are multiplied by, where they were not made for the numbers.
testing::AssertionResult agree(const Outputs& got, const Outputs& definition, const Inputs& inputs,
                               const Backend& on, double slack = 1);

// A gradient against the definition (in float64), within core::gradient_bound.
testing::AssertionResult gradient_agrees(const Array& got, const Array& definition,
                                         const core::GradientMeasure& measure,
                                         std::string_view name, double slack = 1);

// The same with the definition computed here.
testing::AssertionResult is_right(const Outputs& got, const Inputs& inputs, const Backend& on);

// Bit for bit, the sign of zero included; NaNs of any payload are one.
testing::AssertionResult same_bits(const Array& a, const Array& b);
testing::AssertionResult same_bits(const Outputs& a, const Outputs& b);

// The row [b, i, h] of out and its lse alone.
testing::AssertionResult same_row(const Outputs& a, const Outputs& b, const Index4& bih);

}  // namespace tessera::test
