// A plan on a stream.
#pragma once
#include "core/problem.hpp"
#include "cuda/driver.hpp"
#include "plan/gpu.hpp"

namespace tessera::cuda {

// Returns when the kernel is in the stream, not when it has run. Allocates nothing and waits for
// nothing.
void launch(const Driver& driver, KernelHandle kernel, const core::Problem& problem,
            const plan::GpuPlan& plan, StreamHandle stream);

}  // namespace tessera::cuda
