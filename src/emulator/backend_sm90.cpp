#include "emulator/backend_sm90.hpp"

#include <algorithm>
#include <cstdint>

#include "core/error.hpp"
#include "device/kernel/forward_sm90.cuh"
#include "device/policy_sm90.cuh"
#include "emulator/backend.hpp"
#include "emulator/tensor_map.hpp"
#include "plan/params.hpp"

namespace tessera::emulator {
namespace {

using core::DType;
using core::Tensor;

constexpr int kLargestDim = 128;

// Whether a tensor map can describe it: columns without gaps, everything else 16 bytes apart or a
// multiple, forwards.
bool has_map(const Tensor& t) {
  bool fits =
      reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && (t.stride[3] == 1 || t.shape[3] == 1);
  for (std::size_t d = 0; d < 3; ++d)
    fits = fits && (t.shape[d] <= 1 || (t.stride[d] > 0 && t.stride[d] % 8 == 0));
  return fits;
}

// [batch, row, head, column] as tiles of 64 columns and so many rows of one head. The stride of a
// dimension of size 1 does not count.
TensorMap map_of(const Tensor& t, int rows) {
  const auto extent = [&](std::size_t d) { return u64(std::max<std::int64_t>(t.shape[d], 1)); };
  const auto stride = [&](std::size_t d) { return t.shape[d] <= 1 ? 16 : u64(2 * t.stride[d]); };
  return encode({.base = t.data,
                 .rank = 4,
                 .extent = {extent(3), extent(1), extent(2), extent(0)},
                 .stride = {2, stride(1), stride(2), stride(0)},
                 .box = {64, u32(rows), 1, 1},
                 .swizzle = Swizzle::k128B});
}

template <class C> Statistics run_forward(const core::Problem& p, u64 seed) {
  // A tensor store is not cut off within 16 bytes.
  const bool out_tiles = has_map(p.out) && p.value_dim % 8 == 0;
  const device::sm90::Params params{plan::forward_params(p),
                                    map_of(p.q, C::kTileQ),
                                    map_of(p.k, C::kTileK),
                                    map_of(p.v, C::kTileK),
                                    out_tiles ? map_of(p.out, 16) : TensorMap{},
                                    out_tiles};
  const auto tiles = int((p.queries + C::kTileQ - 1) / C::kTileQ);
  const int sequences = int(p.batch) + (p.packed_queries() ? 1 : 0);
  GlobalMemory memory = memory_of(p);
  return launch({.grid = {tiles, int(p.heads), sequences},
                 .threads = C::kThreads,
                 .shared_bytes = C::kSharedBytes,
                 .seed = seed},
                memory, [&params] { device::sm90::forward<C>(params); });
}

template <class T> Statistics run_in(const core::Problem& p, u64 seed) {
  if (std::max(p.dim, p.value_dim) <= 64)
    return run_forward<device::WarpgroupConfig<T, 64>>(p, seed);
  return run_forward<device::WarpgroupConfig<T, 128>>(p, seed);
}

// A weight that is rounded moves a result by half of what that may be off, which is an average over
// rows only if there are some.
constexpr std::int64_t kFewestRows = 64;

std::string refusal_of_rows(const core::Problem& p) {
  const std::int64_t rows = p.q.shape[0] * p.q.shape[1] * p.heads;
  if (rows < kFewestRows)
    return "the kernel of sm_90 rounds weights to 16 bits and takes 64 rows of queries or more, "
           "not " +
           std::to_string(rows) + "; the kernels of sm_80 take any";
  if (p.batch_invariant)
    return "the kernel of sm_90 is not chosen for batch-invariant calls, which may have few rows; "
           "the kernels of sm_80 are";
  return "";
}

std::string refusal_of_scores(const core::Problem& p) {
  if (p.mask.present() || p.bias.present())
    return "the kernel of sm_90 has no mask and no bias; the kernels of sm_80 do";
  if (p.alibi.present() || p.softcap != 0)
    return "the kernel of sm_90 has neither ALiBi nor soft cap; the kernels of sm_80 do";
  if (p.scale == 0) return "the kernel of sm_90 takes no scale of 0; the kernels of sm_80 do";
  if (p.dropout.p != 0) return "the kernel of sm_90 has no dropout; the kernels of sm_80 do";
  if (p.state_lse.present())
    return "the kernel of sm_90 does not start from a state; the kernels of sm_80 do";
  return "";
}

}  // namespace

std::string refusal_of_sm90(const core::Problem& p) {
  if (p.q.dtype != DType::kFloat16 && p.q.dtype != DType::kBfloat16)
    return "the kernel of sm_90 takes float16 and bfloat16, not " +
           std::string(core::name_of(p.q.dtype)) + "; convert q, k and v";
  if (std::max(p.dim, p.value_dim) > kLargestDim)
    return "the kernel of sm_90 has head dimensions up to 128, not " +
           std::to_string(std::max(p.dim, p.value_dim)) + "; the kernels of sm_80 have larger ones";
  if (p.out.dtype != p.q.dtype)
    return "the kernel of sm_90 gives out in the type of q, not in " +
           std::string(core::name_of(p.out.dtype)) + "; the kernels of sm_80 give either";
  if (p.paged()) return "the kernel of sm_90 takes no pages; the kernels of sm_80 do";
  if (!has_map(p.q) || !has_map(p.k) || !has_map(p.v))
    return "the kernel of sm_90 takes q, k and v whose rows are contiguous and lie a multiple of "
           "16 bytes apart, forwards; copy them, or use the kernels of sm_80";
  if (const std::string why = refusal_of_rows(p); !why.empty()) return why;
  return refusal_of_scores(p);
}

Statistics run_on_sm90(const core::Problem& p, u64 seed) {
  if (const std::string why = refusal_of_sm90(p); !why.empty())
    core::fail(core::Status::kUnsupported, why);
  if (p.queries == 0 || p.heads == 0 || (p.batch == 0 && !p.packed_queries())) return {};
  if (p.q.dtype == DType::kFloat16) return run_in<device::Float16>(p, seed);
  return run_in<device::Bfloat16>(p, seed);
}

}  // namespace tessera::emulator
