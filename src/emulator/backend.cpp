#include "emulator/backend.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "device/kernel/forward_all.cuh"
#include "plan/params.hpp"

namespace tessera::emulator {
namespace {

using core::Tensor;
using device::Weighing;

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
        Named{"block_table", p.block_table}, Named{"state_out", p.state_out},
        Named{"state_lse", p.state_lse}}) {
    if (!n.tensor.present() || n.tensor.empty()) continue;
    const Extent e = extent(n.tensor);
    memory.input(n.name, e.first, e.bytes);
  }
  return memory;
}

namespace {

template <class C>
Statistics run_forward(const core::Problem& p, const plan::GpuPlan& plan, u64 seed) {
  const device::ForwardParams params = plan::forward_params(p);
  GlobalMemory memory = memory_of(p);
  return launch({.grid = {plan.grid.x, plan.grid.y, plan.grid.z},
                 .threads = plan.threads,
                 .shared_bytes = u32(plan.shared_bytes),
                 .seed = seed},
                memory, [&params] { device::forward_of<C>(params); });
}

template <class T, Weighing weighing>
Statistics run_weighing(const core::Problem& p, const plan::GpuPlan& plan, u64 seed) {
  constexpr int largest = weighing == Weighing::kPairs  ? 128
                          : weighing == Weighing::kBand ? 256
                                                        : 512;
  switch (plan.kernel.dim) {
    case 64: return run_forward<device::Config<T, 64, weighing>>(p, plan, seed);
    case 128: return run_forward<device::Config<T, 128, weighing>>(p, plan, seed);
    case 256:
      return run_forward<device::Config<T, std::min(256, largest), weighing>>(p, plan, seed);
    default: return run_forward<device::Config<T, largest, weighing>>(p, plan, seed);
  }
}

template <class T> Statistics run_in(const core::Problem& p, const plan::GpuPlan& plan, u64 seed) {
  switch (plan.kernel.weighing) {
    case Weighing::kBand: return run_weighing<T, Weighing::kBand>(p, plan, seed);
    case Weighing::kPairs: return run_weighing<T, Weighing::kPairs>(p, plan, seed);
    case Weighing::kExact: return run_weighing<T, Weighing::kExact>(p, plan, seed);
    default: return run_weighing<T, Weighing::kRounded>(p, plan, seed);
  }
}

}  // namespace

std::string refusal(const core::Problem& p) { return plan::refusal(p, kGpu); }

std::string describe(const core::Problem& p) {
  return plan::to_json(plan::make_gpu_plan(p, kGpu), p, kGpu);
}

Statistics run(const core::Problem& p, u64 seed, const plan::Gpu& on) {
  const plan::GpuPlan plan = plan::make_gpu_plan(p, on);
  if (plan.empty()) return {};
  if (plan.kernel.weighing == Weighing::kFloat32)
    return run_weighing<float, Weighing::kFloat32>(p, plan, seed);
  if (p.q.dtype == core::DType::kFloat16) return run_in<device::Float16>(p, plan, seed);
  return run_in<device::Bfloat16>(p, plan, seed);
}

}  // namespace tessera::emulator
