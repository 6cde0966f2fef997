#include "emulator/backend.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/error.hpp"
#include "device/kernel/forward_all.cuh"
#include "device/policy.cuh"
#include "emulator/params.hpp"

namespace tessera::emulator {
namespace {

using core::DType;
using core::Tensor;
using device::Weighing;

constexpr int kLargestDim = 512;

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
        Named{"block_table", p.block_table}, Named{"state_out", p.state_out},
        Named{"state_lse", p.state_lse}}) {
    if (!n.tensor.present() || n.tensor.empty()) continue;
    const Extent e = extent(n.tensor);
    memory.input(n.name, e.first, e.bytes);
  }
  return memory;
}

template <class C>
Statistics run_forward(const core::Problem& p, const device::ForwardParams& params, u64 seed) {
  const auto tiles = int((p.queries + C::kTileQ - 1) / C::kTileQ);
  const int sequences = int(p.batch) + (p.packed_queries() ? 1 : 0);
  GlobalMemory memory = memory_of(p);
  return launch({.grid = {tiles, int(p.heads), sequences},
                 .threads = C::kThreads,
                 .shared_bytes = C::kSharedBytes,
                 .seed = seed},
                memory, [&params] { device::forward_of<C>(params); });
}

template <class T, Weighing w>
Statistics run_weighing(const core::Problem& p, const device::ForwardParams& params, u64 seed) {
  const std::int64_t dim = std::max(p.dim, p.value_dim);
  if (dim <= 64) return run_forward<device::Config<T, 64, w>>(p, params, seed);
  if (dim <= 128) return run_forward<device::Config<T, 128, w>>(p, params, seed);
  if (dim <= 256) return run_forward<device::Config<T, 256, w>>(p, params, seed);
  return run_forward<device::Config<T, 512, w>>(p, params, seed);
}

template <class T>
Statistics run_band(const core::Problem& p, const device::ForwardParams& params, u64 seed) {
  const std::int64_t dim = std::max(p.dim, p.value_dim);
  if (dim <= 64) return run_forward<device::Config<T, 64, Weighing::kBand>>(p, params, seed);
  if (dim <= 128) return run_forward<device::Config<T, 128, Weighing::kBand>>(p, params, seed);
  return run_forward<device::Config<T, 256, Weighing::kBand>>(p, params, seed);
}

template <class T> Statistics run_in(const core::Problem& p, u64 seed) {
  const device::ForwardParams params = forward_params(p);
  const std::int64_t rows = p.q.shape[0] * p.q.shape[1] * p.heads;
  const bool wide = p.out.dtype == DType::kFloat32;
  if (device::weighing_for(rows, wide, p.batch_invariant) == Weighing::kExact)
    return run_weighing<T, Weighing::kExact>(p, params, seed);
  if (!device::takes_band(params)) return run_weighing<T, Weighing::kRounded>(p, params, seed);
  return run_band<T>(p, params, seed);
}

}  // namespace

std::string refusal(const core::Problem& p) {
  if (p.q.dtype == DType::kFloat64)
    return "the kernels of sm_80 take float32, float16 and bfloat16, not float64; convert q, k and "
           "v, or use the reference backend";
  if (std::max(p.dim, p.value_dim) > kLargestDim)
    return "the kernels of sm_80 have head dimensions up to 512, not " +
           std::to_string(std::max(p.dim, p.value_dim)) + "; the CPU backend takes any";
  return "";
}

Statistics run(const core::Problem& p, u64 seed) {
  if (const std::string why = refusal(p); !why.empty()) core::fail(core::Status::kUnsupported, why);
  if (p.queries == 0 || p.heads == 0 || (p.batch == 0 && !p.packed_queries())) return {};
  if (p.q.dtype == DType::kFloat32) return run_weighing<float, Weighing::kFloat32>(p, forward_params(p), seed);
  if (p.q.dtype == DType::kFloat16) return run_in<device::Float16>(p, seed);
  return run_in<device::Bfloat16>(p, seed);
}

}  // namespace tessera::emulator
