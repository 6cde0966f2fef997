// Of a command line that was built without the GPU part: the library itself refuses a call with
// TESSERA_BACKEND_CUDA.
#include "tools/tessera/failure.hpp"
#include "tools/tessera/gpu.hpp"

namespace tessera::tool {
namespace {

constexpr const char* kWhy =
    "this tessera was built without its GPU part, so it keeps no compiled kernels; build it on "
    "Linux with TESSERA_CUDA other than OFF";

}  // namespace

struct OnGpu::Copies {};
OnGpu::OnGpu(tessera_attention_desc& desc) { place(desc); }
OnGpu::~OnGpu() = default;
void OnGpu::wait() const {}
void OnGpu::fetch() const {}

std::string cache_folder() { throw Failure(kNotSupported, kWhy); }
std::vector<CachedKernel> cached_kernels() { throw Failure(kNotSupported, kWhy); }
std::int64_t clear_cache() { throw Failure(kNotSupported, kWhy); }

}  // namespace tessera::tool
