#include "plan/gpu.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "plan/params.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;
using device::Weighing;

// What a kernel is launched with, read from the Config that it is compiled for. The element type
// changes none of it.
struct Shape {
  Weighing weighing;
  int dim, tile_q, tile_k, stages, threads, shared_bytes;
};

template <class T, int dim, Weighing weighing> constexpr Shape shape_of() {
  using C = device::Config<T, dim, weighing>;
  return {weighing, C::kDim, C::kTileQ, C::kTileK, C::kStages, C::kThreads, C::kSharedBytes};
}

using device::Float16;
constexpr Shape kShapes[] = {
    shape_of<Float16, 64, Weighing::kBand>(),     shape_of<Float16, 128, Weighing::kBand>(),
    shape_of<Float16, 256, Weighing::kBand>(),    shape_of<Float16, 64, Weighing::kPairs>(),
    shape_of<Float16, 128, Weighing::kPairs>(),   shape_of<Float16, 64, Weighing::kRounded>(),
    shape_of<Float16, 128, Weighing::kRounded>(), shape_of<Float16, 256, Weighing::kRounded>(),
    shape_of<Float16, 512, Weighing::kRounded>(), shape_of<Float16, 64, Weighing::kExact>(),
    shape_of<Float16, 128, Weighing::kExact>(),   shape_of<Float16, 256, Weighing::kExact>(),
    shape_of<Float16, 512, Weighing::kExact>(),   shape_of<float, 64, Weighing::kFloat32>(),
    shape_of<float, 128, Weighing::kFloat32>(),   shape_of<float, 256, Weighing::kFloat32>(),
    shape_of<float, 512, Weighing::kFloat32>()};
constexpr int kLargestDim = 512;
constexpr int kFamily = 80;

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": blocks along x.
// Heads and sequences together have to be 32-bit numbers too.
constexpr std::int64_t kMostBlocks = 0x7fffffff;

std::int64_t widest(const Problem& p) { return std::max(p.dim, p.value_dim); }

Weighing weighing_for(const Problem& p) {
  if (p.q.dtype == DType::kFloat32) return Weighing::kFloat32;
  const std::int64_t rows = (p.packed_queries() ? 1 : p.batch) * p.queries * p.heads;
  const bool wide = p.out.dtype == DType::kFloat32;
  const Weighing weighing = device::weighing_for(rows, wide, p.batch_invariant);
  if (weighing != Weighing::kRounded) return weighing;
  const device::ForwardParams params = forward_params(p);
  if (device::takes_band(params)) return Weighing::kBand;
  return device::takes_pairs(params) ? Weighing::kPairs : weighing;
}

const Shape& shape_for(const Problem& p) {
  const Weighing weighing = weighing_for(p);
  for (const Shape& shape : kShapes)
    if (weighing == shape.weighing && widest(p) <= shape.dim) return shape;
  return kShapes[std::size(kShapes) - 1];
}

std::string_view why(Weighing weighing) {
  switch (weighing) {
    case Weighing::kBand:
      return "a band, lengths and rows of whole 16 bytes; every GPU since Ampere";
    case Weighing::kPairs:
      return "a mask or a bias, and rows of whole 16 bytes; every GPU since Ampere";
    case Weighing::kExact:
      return "few rows, out in float32 or batch invariant: weights are not rounded; every GPU "
             "since "
             "Ampere";
    case Weighing::kFloat32: return "float32 on multiply-adds; every GPU since Ampere";
    default: return "scores change pair by pair, or rows lie anyhow; every GPU since Ampere";
  }
}

std::int64_t tiles_of(const Problem& p, int tile) { return (p.queries + tile - 1) / tile; }

// Of packed queries one more, whose blocks clear the rows that belong to none.
std::int64_t sequences_of(const Problem& p) { return p.batch + (p.packed_queries() ? 1 : 0); }

std::string number(std::int64_t x) { return std::to_string(x); }

std::string missing_in_kernels(const Problem& p) {
  if (p.q.dtype == DType::kFloat64)
    return "the kernels of sm_80 take float32, float16 and bfloat16, not float64; convert q, k and "
           "v, or use the reference backend";
  if (widest(p) > kLargestDim)
    return "the kernels of sm_80 have head dimensions up to " + number(kLargestDim) + ", not " +
           number(widest(p)) + "; the CPU backend takes any";
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

std::string too_many_blocks(const Problem& p, const Gpu& gpu) {
  if (tiles_of(p, shape_for(p).tile_q) > kMostBlocks)
    return "q has " + number(p.queries) +
           " rows, more than a GPU takes in one call; cut them into calls";
  const std::int64_t most = std::min(kMostBlocks, gpu.grid_rows * gpu.grid_rows);
  if (p.heads > 0 && sequences_of(p) > most / p.heads)
    return "q has " + number(p.heads) + " heads of " + number(p.batch) +
           " sequences, and a GPU takes " + number(most) +
           " together in one call; cut the batch into calls";
  return "";
}

// Tiles along x, heads along y, sequences along z. Where one of the latter has no room there both
// are counted through together: device/attention/place.cuh finds them again.
device::Index3 grid_of(const Problem& p, const Gpu& gpu, int tile_q) {
  const auto tiles = int(tiles_of(p, tile_q));
  const std::int64_t heads = p.heads, sequences = sequences_of(p);
  if (heads <= gpu.grid_rows && sequences <= gpu.grid_rows)
    return {tiles, int(heads), int(sequences)};
  const std::int64_t all = heads * sequences, z = (all + gpu.grid_rows - 1) / gpu.grid_rows;
  return {tiles, z == 0 ? 0 : int((all + z - 1) / z), int(z)};
}

}  // namespace

std::string name_of(const KernelKey& key) {
  return "forward_sm" + number(key.family) + "_" + std::string(core::name_of(key.dtype)) + "_d" +
         number(key.dim) + "_" + std::string(name_of(key.weighing));
}

std::string_view name_of(Weighing weighing) {
  switch (weighing) {
    case Weighing::kBand: return "band";
    case Weighing::kPairs: return "pairs";
    case Weighing::kExact: return "exact";
    case Weighing::kFloat32: return "words";
    default: return "rounded";
  }
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
  if (why.empty()) why = too_many_blocks(p, gpu);
  return why;
}

GpuPlan make_gpu_plan(const Problem& p, const Gpu& gpu) {
  if (const std::string why = refusal(p, gpu); !why.empty())
    core::fail(core::Status::kUnsupported, why);
  const Shape& shape = shape_for(p);
  return {.kernel = {device::Direction::kForward, kFamily, p.q.dtype, shape.dim, shape.weighing},
          .tile_q = shape.tile_q,
          .tile_k = shape.tile_k,
          .stages = shape.stages,
          .grid = grid_of(p, gpu, shape.tile_q),
          .threads = shape.threads,
          .shared_bytes = shape.shared_bytes,
          .why_kernel = why(shape.weighing)};
}

}  // namespace tessera::plan
