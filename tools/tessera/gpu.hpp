// Calls whose tensors are copied to a GPU and back, and the cache of compiled kernels. A build
// without the GPU part has no_gpu.cpp in its place.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::tool {

// The tensors of a call.
inline constexpr std::array kCallTensors{&tessera_attention_desc::q,
                                         &tessera_attention_desc::k,
                                         &tessera_attention_desc::v,
                                         &tessera_attention_desc::out,
                                         &tessera_attention_desc::lse,
                                         &tessera_attention_desc::offsets,
                                         &tessera_attention_desc::mask,
                                         &tessera_attention_desc::bias,
                                         &tessera_attention_desc::alibi,
                                         &tessera_attention_desc::sink,
                                         &tessera_attention_desc::kv_lengths,
                                         &tessera_attention_desc::kv_starts,
                                         &tessera_attention_desc::cache_batch_idx,
                                         &tessera_attention_desc::cu_seqlens_q,
                                         &tessera_attention_desc::cu_seqlens_k,
                                         &tessera_attention_desc::seqused_q,
                                         &tessera_attention_desc::seqused_k,
                                         &tessera_attention_desc::block_table,
                                         &tessera_attention_desc::state_out,
                                         &tessera_attention_desc::state_lse};

// Says of every tensor of a call with TESSERA_BACKEND_CUDA that it lies on GPU 0; leaves any other
// call as it is.
inline void place(tessera_attention_desc& desc) {
  if (desc.backend != TESSERA_BACKEND_CUDA) return;
  for (const auto member : kCallTensors) (desc.*member).device_type = TESSERA_CUDA;
}

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
