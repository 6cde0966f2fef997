// Rows of packed tensors that belong to no sequence, or lie past the part of it that is used.
#pragma once
#include "core/gradients.hpp"
#include "core/problem.hpp"

namespace tessera::cpu {

// Gradients of such rows are zeros. Dense tensors have none.
void clear_unused_rows(const core::Problem& p, const core::Gradients& g);

}  // namespace tessera::cpu
