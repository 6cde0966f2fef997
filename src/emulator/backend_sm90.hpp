// The Hopper kernel as a backend that needs no GPU.
#pragma once
#include <string>

#include "core/problem.hpp"
#include "emulator/grid.hpp"

namespace tessera::emulator {

// What the kernel of sm_90 does not do with a problem, as a sentence; empty if it does all of it.
std::string refusal_of_sm90(const core::Problem& p);

// Computes out and lse. A rule that the kernel breaks is a Violation, what it cannot do a
// core::Error.
Statistics run_on_sm90(const core::Problem& p, u64 seed = 1);

}  // namespace tessera::emulator
