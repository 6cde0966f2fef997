// The GPU kernels in software, where the processor has an emulator.
#pragma once
#include "core/problem.hpp"

namespace tessera::test {

bool has_emulator();

// Computes out and lse under a schedule that TESSERA_TEST_SEED moves. Throws what the kernel does
// wrong, or does not do.
void emulate(const core::Problem& p);

}  // namespace tessera::test
