// The probes on a GPU.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpu/probes_sm80.cuh"
#include "gpu/probes_sm90.cuh"
#include "gpu/run.hpp"

namespace tessera::gpu {
namespace {

void check(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "isa_equivalence: %s: %s\n", what, cudaGetErrorString(e));
  std::exit(1);
}

template <class T> struct Buffer {
  T* data = nullptr;
  std::size_t count;

  explicit Buffer(std::size_t n) : count(n) { check(cudaMalloc(&data, n * sizeof(T)), "malloc"); }
  explicit Buffer(const std::vector<T>& v) : Buffer(v.size()) {
    check(cudaMemcpy(data, v.data(), count * sizeof(T), cudaMemcpyHostToDevice), "copy");
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  std::vector<T> read() const {
    std::vector<T> v(count);
    check(cudaMemcpy(v.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "copy");
    return v;
  }
};

TensorMap encode(const TileMap& m, void* base) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found),
        "cuTensorMapEncodeTiled");
  constexpr CUtensorMapSwizzle kModes[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
  cuuint64_t extent[TileMap::kMostRank], stride[TileMap::kMostRank];
  cuuint32_t box[TileMap::kMostRank], steps[TileMap::kMostRank];
  for (int d = 0; d < m.rank; ++d) {
    extent[d] = m.extent[d];
    box[d] = m.box[d];
    steps[d] = 1;
    if (d > 0) stride[d - 1] = m.stride[d];
  }
  TensorMap map{};
  const CUresult e = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_UINT16, cuuint32_t(m.rank),
      base, extent, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, kModes[u32(m.swizzle)],
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (e != CUDA_SUCCESS) {
    std::fprintf(stderr, "isa_equivalence: cuTensorMapEncodeTiled refuses a map (%d)\n", int(e));
    std::exit(1);
  }
  return map;
}

template <class P>
__global__ void __launch_bounds__(P::kThreads, 1) entry(const __grid_constant__ ProbeParams p) {
  run_probe<P>(p);
}

template <class P> void launch(const ProbeParams& params) {
  check(cudaFuncSetAttribute(entry<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kShared),
        P::kName);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(P::kCluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = kBlocks;
  config.blockDim = P::kThreads;
  config.dynamicSmemBytes = P::kShared;
  config.attrs = &cluster;
  config.numAttrs = P::kCluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, entry<P>, params), P::kName);
  check(cudaDeviceSynchronize(), P::kName);
}

template <class P> Reply ask(const Question& q) {
  const Buffer<u32> in(q.in), out(std::size_t(kBlocks * P::kThreads * P::kOut));
  const Buffer<u8> tensor(q.tensor);
  ProbeParams params{in.data, out.data, tensor.data, {}};
  if constexpr (P::kTile.rank != 0) params.map = encode(P::kTile, tensor.data);
  launch<P>(params);
  return {out.read(), tensor.read()};
}

template <class... P> std::vector<Runner> runners(Probes<P...>) {
  return {Runner{name_of_probe<P>(), P::kThreads, P::kIn, P::kOut, P::kInput, P::kAnswer, P::kUlps,
                 P::kStores, &ask<P>}...};
}

}  // namespace

std::vector<Runner> silicon_probes() {
  cudaDeviceProp device{};
  const cudaError_t e = cudaGetDeviceProperties(&device, 0);
  if (e != cudaSuccess || device.major != 9) {
    std::fprintf(stderr, "isa_equivalence: the first GPU must be of compute capability 9.0: %s\n",
                 e != cudaSuccess ? cudaGetErrorString(e) : device.name);
    return {};
  }
  std::vector<Runner> all = runners(Sm80Probes());
  for (Runner& r : runners(Sm90Probes())) all.push_back(r);
  return all;
}

}  // namespace tessera::gpu
