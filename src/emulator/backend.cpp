#include "emulator/backend.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/error.hpp"
#include "device/kernel/forward_sm80.cuh"
#include "device/policy.cuh"
#include "emulator/params.hpp"

namespace tessera::emulator {
namespace {

using core::DType;
using core::Tensor;

constexpr int kLargestDim = 256;

// The bytes from the first to the last element of a tensor.
struct Extent {
  std::byte* first;
  std::size_t bytes;
};
Extent extent(const Tensor& t) {
  std::int64_t low = 0, high = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t reach = (t.shape[i] - 1) * t.stride[i];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t size = core::size_of(t.dtype);
  return {static_cast<std::byte*>(t.data) + low * size, std::size_t((high - low + 1) * size)};
}

struct Named {
  const char* name;
  const Tensor& tensor;
};

}  // namespace

GlobalMemory memory_of(const core::Problem& p) {
  GlobalMemory memory;
  for (const Named& n : {Named{"out", p.out}, Named{"lse", p.lse}}) {
    if (!n.tensor.present() || n.tensor.empty()) continue;
    const Extent e = extent(n.tensor);
    memory.output(n.name, e.first, e.bytes);
  }
  for (const Named& n :
       {Named{"q", p.q}, Named{"k", p.k}, Named{"v", p.v}, Named{"mask", p.mask},
        Named{"bias", p.bias}, Named{"alibi", p.alibi}, Named{"sink", p.sink},
        Named{"offsets", p.offsets}, Named{"kv_lengths", p.kv_lengths},
        Named{"kv_starts", p.kv_starts}, Named{"cache_batch_idx", p.cache_batch_idx},
        Named{"cu_seqlens_q", p.cu_seqlens_q}, Named{"cu_seqlens_k", p.cu_seqlens_k},
        Named{"seqused_q", p.seqused_q}, Named{"seqused_k", p.seqused_k},
        Named{"block_table", p.block_table}}) {
    if (!n.tensor.present() || n.tensor.empty()) continue;
    const Extent e = extent(n.tensor);
    memory.input(n.name, e.first, e.bytes);
  }
  return memory;
}

namespace {

template <class C> Statistics run_forward(const core::Problem& p, u64 seed) {
  const device::ForwardParams params = forward_params(p);
  const auto tiles = int((p.queries + C::kTileQ - 1) / C::kTileQ);
  const int sequences = int(p.batch) + (p.packed_queries() ? 1 : 0);
  GlobalMemory memory = memory_of(p);
  return launch({.grid = {tiles, int(p.heads), sequences},
                 .threads = C::kThreads,
                 .shared_bytes = C::kSharedBytes,
                 .seed = seed},
                memory, [&params] { device::forward<C>(params); });
}

template <class T> Statistics run_in(const core::Problem& p, u64 seed) {
  const std::int64_t dim = std::max(p.dim, p.value_dim);
  if (dim <= 64) return run_forward<device::Config<T, 64>>(p, seed);
  if (dim <= 128) return run_forward<device::Config<T, 128>>(p, seed);
  return run_forward<device::Config<T, 256>>(p, seed);
}

}  // namespace

std::string refusal(const core::Problem& p) {
  if (p.q.dtype != DType::kFloat16 && p.q.dtype != DType::kBfloat16)
    return "the kernels of sm_80 take float16 and bfloat16, not " +
           std::string(core::name_of(p.q.dtype)) + "; convert q, k and v";
  if (std::max(p.dim, p.value_dim) > kLargestDim)
    return "the kernels of sm_80 have head dimensions up to 256, not " +
           std::to_string(std::max(p.dim, p.value_dim)) + "; the CPU backend takes any";
  if (p.out.dtype == DType::kFloat32)
    return "the kernels of sm_80 round weights to 16 bits, which an out in float32 would show; "
           "give "
           "an out in the type of q, or use the CPU backend";
  if (p.dropout.p != 0) return "the kernels of sm_80 have no dropout; the CPU backend does";
  if (p.state_lse.present())
    return "the kernels of sm_80 do not start from a state; the CPU backend does";
  return "";
}

Statistics run(const core::Problem& p, u64 seed) {
  if (const std::string why = refusal(p); !why.empty()) core::fail(core::Status::kUnsupported, why);
  if (p.queries == 0 || p.heads == 0 || (p.batch == 0 && !p.packed_queries())) return {};
  if (p.q.dtype == DType::kFloat16) return run_in<device::Float16>(p, seed);
  return run_in<device::Bfloat16>(p, seed);
}

}  // namespace tessera::emulator
