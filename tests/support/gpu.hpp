// Calls on a real GPU, where there is one, with the tensors of tests: copied there and back.
#pragma once
#include <functional>
#include <string>

#include "support/inputs.hpp"
#include "tessera/tessera.h"

namespace tessera::test {

// Why there is no GPU to test on; empty if there is one.
const std::string& why_no_gpu();
inline bool has_gpu() { return why_no_gpu().empty(); }

// Calls call(desc) with tensors on GPU 0. `desc` points at host memory; each of its tensors gets
// memory of its own on the GPU, at the same address modulo 256 and with poison on both sides, and
// out and lse come back. Returns when the GPU has finished.
using GpuCall = std::function<tessera_status(const tessera_attention_desc& desc)>;
tessera_status on_gpu(tessera_attention_desc desc, const GpuCall& call);

// tessera_attention with TESSERA_BACKEND_CUDA, that way.
tessera_status attend_on_gpu(tessera_context* context, const tessera_attention_desc& desc,
                             tessera_error* error);

}  // namespace tessera::test
