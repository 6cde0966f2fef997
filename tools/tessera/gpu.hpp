// Calls whose tensors are copied to a GPU and back, and the cache of compiled kernels. A build
// without the GPU part has no_gpu.cpp in its place.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::tool {

// Says of every tensor of a call with TESSERA_BACKEND_CUDA that it lies on GPU 0; leaves any other
// call as it is.
void place(tessera_attention_desc& desc);

// The tensors of such a call on the GPU, as long as this lives. Of any other call, nothing.
class OnGpu {
 public:
  // Copies them there, and points the call at the copies.
  explicit OnGpu(tessera_attention_desc& desc);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  // Waits for what was put into the stream of the call.
  void wait() const;
  // The same, and copies out and lse back.
  void fetch() const;

 private:
  struct Copies;
  std::unique_ptr<Copies> copies_;
};

struct CachedKernel {
  std::string key;
  std::int64_t bytes, used;  // used: seconds since 1970
};
// The folder of compiled kernels; what is in it, the last used first. Both refuse a folder that the
// library would not use.
std::string cache_folder();
std::vector<CachedKernel> cached_kernels();
// How many bytes were removed.
std::int64_t clear_cache();

}  // namespace tessera::tool
