// The GPU kernels in software, where the processor has an emulator.
#pragma once
#include <string_view>

#include "core/problem.hpp"

namespace tessera::test {

bool has_emulator();

// Computes out and lse as a GPU of "sm80" or "sm90" would, under a schedule that TESSERA_TEST_SEED
// moves: sm_90 takes its own kernel, and for what that refuses the one of sm_80. Throws what the
// kernel does wrong, or does not do.
void emulate(const core::Problem& p, std::string_view architecture);

}  // namespace tessera::test
