// The GPU kernels as a backend that needs no GPU.
#pragma once
#include <string>

#include "core/problem.hpp"
#include "emulator/grid.hpp"
#include "plan/gpu.hpp"

namespace tessera::emulator {

// The least that a GPU of sm_80 or newer offers a block (8.6, 8.9 and 12.0).
inline const plan::Gpu kGpu{.name = "the emulator",
                            .arch = 80,
                            .multiprocessors = 1,
                            .shared_bytes = 99 << 10,
                            .emulated = true};

// The tensors of a problem, as a kernel may touch them.
GlobalMemory memory_of(const core::Problem& p);

// What the kernels of sm_80 do not do with a problem, as a sentence; empty if they do all of it.
std::string refusal(const core::Problem& p);

// The plan of a problem as one JSON object.
std::string describe(const core::Problem& p);

// Computes out and lse. A rule that a kernel breaks is a Violation, what it cannot do a
// core::Error.
Statistics run(const core::Problem& p, u64 seed = 1, const plan::Gpu& on = kGpu);

}  // namespace tessera::emulator
