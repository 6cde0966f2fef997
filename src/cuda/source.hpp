// The text of a kernel, for whoever compiles it.
#pragma once
#include <string>
#include <vector>

#include "plan/gpu.hpp"

namespace tessera::cuda {

// The translation unit of one entry: src/device/entry.cu.in with its numbers.
std::string entry_text(const plan::KernelKey& key);

}  // namespace tessera::cuda
