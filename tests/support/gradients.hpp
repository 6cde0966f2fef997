// The backward pass of a case: run, defined, and compared.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/gradients.hpp"
#include "support/backend.hpp"
#include "support/inputs.hpp"

namespace tessera::test {

using core::Gradient;
inline constexpr Gradient kEveryGradient[] = {Gradient::kQ, Gradient::kK, Gradient::kV,
                                              Gradient::kBias, Gradient::kSink};

// The backends that compute gradients: of backend_names(), those of which this is true.
const std::vector<std::string>& backward_backend_names();

// A call and what arrives from above. The case has a Pull.
struct BackwardInputs {
  Inputs call;
  Upstream from_above;

  explicit BackwardInputs(const Case& c) : call(c), from_above(c) {}
  const Case& of() const { return call.of; }
  const Pull& pull() const { return *call.of.pull; }
};

// What a backward pass gave; gradients that were not wanted are absent.
struct GradientArrays {
  std::array<Array, std::size(kEveryGradient)> arrays;
  core::GradientTerms terms{};  // by the reference alone
  tessera_status status = TESSERA_OK;
  std::string message;

  // Poisoned, in the types and layouts that the case asks for.
  explicit GradientArrays(const BackwardInputs& in);
  Array& operator[](Gradient g) { return arrays[std::size_t(g)]; }
  const Array& operator[](Gradient g) const { return arrays[std::size_t(g)]; }
};

// The descriptor of the backward pass; it points into its arguments, and `forward` must live.
tessera_attention_backward_desc describe(const BackwardInputs& in, const GradientArrays& to,
                                         const tessera_attention_desc& forward);

// The call and then its gradients, both on one backend, into arrays that held poison, or what
// `there` holds if the case accumulates.
GradientArrays differentiate(const Backend& on, const BackwardInputs& in);
GradientArrays differentiate(const Backend& on, const BackwardInputs& in, GradientArrays there);

// The definition in float64 on the very numbers of `in`, of every gradient that there is.
GradientArrays define_gradients(const BackwardInputs& in);

// Each gradient that was wanted against the definition, within core::gradient_bound.
testing::AssertionResult agree(const GradientArrays& got, const GradientArrays& definition,
                               const BackwardInputs& in, const Backend& on, double slack = 1);
testing::AssertionResult is_right(const GradientArrays& got, const BackwardInputs& in,
                                  const Backend& on);

// Bit for bit, where both have them.
testing::AssertionResult same_bits(const GradientArrays& a, const GradientArrays& b);

}  // namespace tessera::test
