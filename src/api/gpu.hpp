// What the library does with GPUs, and with the GPU in software. A build leaves out either: then a
// file of the same functions says so (no_gpu.cpp, no_emulator.cpp).
#pragma once
#include <string>

#include "api/convert.hpp"

namespace tessera::api {

// Puts the call into its stream and returns.
void run_on_gpu(const Call& call);
// One JSON object.
std::string describe_gpu_plan(const Call& call);
// The driver, the GPUs, NVRTC and the cache of compiled kernels, or why there are none.
std::string describe_gpus();

bool has_software_gpu();
void run_in_software(const Call& call);
std::string describe_software_plan(const Call& call);

}  // namespace tessera::api
