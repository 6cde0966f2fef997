// A problem as a kernel receives it.
#pragma once
#include "core/problem.hpp"
#include "device/params.cuh"

namespace tessera::plan {

device::ForwardParams forward_params(const core::Problem& p);

}  // namespace tessera::plan
