#include "plan/gpu.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;

// What a kernel is launched with, read from the Config that it is compiled for. The element type
// changes none of it.
struct Shape {
  int dim, tile_q, tile_k, stages, threads, shared_bytes;
};

template <class C> constexpr Shape shape_of() {
  return {C::kDim, C::kTileQ, C::kTileK, C::kStages, C::kThreads, C::kSharedBytes};
}

constexpr Shape kShapes[] = {shape_of<device::Config<device::Float16, 64>>(),
                             shape_of<device::Config<device::Float16, 128>>(),
                             shape_of<device::Config<device::Float16, 256>>()};
constexpr int kLargestDim = kShapes[std::size(kShapes) - 1].dim;
constexpr int kFamily = 80;

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr std::int64_t kMostColumns = 0x7fffffff, kMostRows = 65535;

std::int64_t widest(const Problem& p) { return std::max(p.dim, p.value_dim); }

const Shape& shape_for(const Problem& p) {
  for (const Shape& shape : kShapes)
    if (widest(p) <= shape.dim) return shape;
  return kShapes[std::size(kShapes) - 1];
}

std::int64_t tiles_of(const Problem& p, int tile) { return (p.queries + tile - 1) / tile; }

// Of packed queries one more, whose blocks clear the rows that belong to none.
std::int64_t sequences_of(const Problem& p) { return p.batch + (p.packed_queries() ? 1 : 0); }

std::string number(std::int64_t x) { return std::to_string(x); }

std::string missing_in_kernels(const Problem& p) {
  if (p.q.dtype != DType::kFloat16 && p.q.dtype != DType::kBfloat16)
    return "the kernels of sm_80 take float16 and bfloat16, not " +
           std::string(core::name_of(p.q.dtype)) + "; convert q, k and v";
  if (widest(p) > kLargestDim)
    return "the kernels of sm_80 have head dimensions up to " + number(kLargestDim) + ", not " +
           number(widest(p)) + "; the CPU backend takes any";
  if (p.out.dtype == DType::kFloat32)
    return "the kernels of sm_80 round weights to 16 bits, which an out in float32 would show; "
           "give an "
           "out in the type of q, or use the CPU backend";
  if (p.dropout.p != 0) return "the kernels of sm_80 have no dropout; the CPU backend does";
  if (p.state_lse.present())
    return "the kernels of sm_80 do not start from a state; the CPU backend does";
  return "";
}

std::string missing_in_gpu(const Problem& p, const Gpu& gpu) {
  if (gpu.arch < kFamily)
    return gpu.name + " has compute capability " + number(gpu.arch / 10) + "." +
           number(gpu.arch % 10) +
           ", but the kernels need 8.0 (Ampere) or newer; use the CPU backend";
  const Shape& shape = shape_for(p);
  if (gpu.shared_bytes < shape.shared_bytes)
    return "a block of the kernel for head dimension " + number(shape.dim) + " needs " +
           number(shape.shared_bytes) + " bytes of shared memory, but " + gpu.name + " has " +
           number(gpu.shared_bytes) + "; use the CPU backend";
  return "";
}

std::string too_many_blocks(const Problem& p) {
  const std::int64_t tiles = tiles_of(p, shape_for(p).tile_q);
  if (tiles > kMostColumns)
    return "q has " + number(p.queries) +
           " rows, more than a GPU takes in one call; cut them into calls";
  if (p.heads > kMostRows)
    return "a GPU takes " + number(kMostRows) + " heads in one call, not " + number(p.heads) +
           "; cut q and out along the heads";
  if (sequences_of(p) > kMostRows)
    return "a GPU takes " + number(kMostRows - (p.packed_queries() ? 1 : 0)) +
           " sequences in one call, not " + number(p.batch) + "; cut the batch into calls";
  return "";
}

}  // namespace

std::string name_of(const KernelKey& key) {
  return "forward_sm" + number(key.family) + "_" + std::string(core::name_of(key.dtype)) + "_d" +
         number(key.dim);
}

bool operator==(const GpuPlan& a, const GpuPlan& b) {
  return a.kernel == b.kernel && a.tile_q == b.tile_q && a.tile_k == b.tile_k &&
         a.stages == b.stages && a.grid.x == b.grid.x && a.grid.y == b.grid.y &&
         a.grid.z == b.grid.z && a.threads == b.threads && a.shared_bytes == b.shared_bytes &&
         a.why_kernel == b.why_kernel;
}

std::string refusal(const Problem& p, const Gpu& gpu) {
  std::string why = missing_in_kernels(p);
  if (why.empty()) why = missing_in_gpu(p, gpu);
  if (why.empty()) why = too_many_blocks(p);
  return why;
}

GpuPlan make_gpu_plan(const Problem& p, const Gpu& gpu) {
  if (const std::string why = refusal(p, gpu); !why.empty())
    core::fail(core::Status::kUnsupported, why);
  const Shape& shape = shape_for(p);
  return {.kernel = {device::Direction::kForward, kFamily, p.q.dtype, shape.dim},
          .tile_q = shape.tile_q,
          .tile_k = shape.tile_k,
          .stages = shape.stages,
          .grid = {int(tiles_of(p, shape.tile_q)), int(p.heads), int(sequences_of(p))},
          .threads = shape.threads,
          .shared_bytes = shape.shared_bytes,
          .why_kernel = "the portable kernel, for every GPU since Ampere"};
}

}  // namespace tessera::plan
