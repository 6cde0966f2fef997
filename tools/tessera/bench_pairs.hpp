// The arithmetic that a call cannot avoid.
#pragma once
#include <cstdint>

#include "core/problem.hpp"
#include "tools/tessera/inputs.hpp"

namespace tessera::tool {

// As much of the call as says which keys a row sees.
core::Problem outline(const Inputs& inputs, const AttentionOptions& options);

// Pairs of a query and a key, over all heads, that band, lengths and mask leave visible. A bias of
// -inf hides pairs too, but is not looked at.
std::int64_t visible_pairs(const Inputs& inputs, const AttentionOptions& options);

// For each of them, forward, 2 (D + Dv): one product with k, one with v. Backward 2 (3 D + 2 Dv):
// S = Q K^T, dQ = dS K and dK = dS^T Q over D, dP = dO V^T and dV = P^T dO over Dv.
double useful_flops(const Inputs& inputs, const AttentionOptions& options, bool backward);

// Bytes of the keys and values that a query of their sequence sees by band and lengths, each read
// once for every sequence, whatever the mask hides.
double cache_bytes(const Inputs& inputs, const AttentionOptions& options);

}  // namespace tessera::tool
