// States of some keys each become the state of all: state.hpp applied to tensors.
#pragma once
#include <span>

#include "core/tensor.hpp"

namespace tessera::core {

struct StateTensors {
  Tensor out;  // [B, Lq, H, Dv] normalised
  Tensor lse;  // [B, H, Lq]; either infinity: no key was seen
};

// Merges the states row by row, in their order; `to` may be one of them. Without states every row
// is empty. to.lse may be absent.
void merge(std::span<const StateTensors> states, const StateTensors& to);

}  // namespace tessera::core
