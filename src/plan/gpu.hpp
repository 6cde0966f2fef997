// What runs on a GPU, decided once: a pure function of the problem and the device. Nothing that a
// tensor holds is read, for it lies in the memory of the GPU.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/problem.hpp"
#include "device/policy.cuh"

namespace tessera::plan {

// A GPU as a value: tests invent some.
struct Gpu {
  std::string name;
  int arch = 0;  // compute capability: 90 is 9.0
  int multiprocessors = 0;
  std::int64_t shared_bytes = 0;  // that a block may have
  std::int64_t memory_bytes = 0;
  bool emulated = false;
  std::int64_t grid_rows = 65535;  // blocks of a grid along y, and along z

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// Which kernel, whatever it is compiled for.
struct KernelKey {
  device::Direction direction = device::Direction::kForward;
  int family = 80;  // the oldest architecture that its instructions need
  core::DType dtype = core::DType::kFloat16;
  int dim = 0;  // head dimensions up to this one
  device::Weighing weighing = device::Weighing::kRounded;

  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

// The name of its entry: forward_sm80_bfloat16_d128_band.
std::string name_of(const KernelKey& key);
std::string_view name_of(device::Weighing weighing);

struct GpuPlan {
  KernelKey kernel;
  int tile_q = 0, tile_k = 0, stages = 0;
  device::Index3 grid{0, 0, 0};  // a size of 0: nothing to do
  int threads = 0;
  std::int64_t shared_bytes = 0;
  std::string_view why_kernel;

  bool empty() const { return grid.x == 0 || grid.y == 0 || grid.z == 0; }
};
bool operator==(const GpuPlan& a, const GpuPlan& b);

// What the kernels do not do with a problem on this GPU, as a sentence; empty if they do all of it.
std::string refusal(const core::Problem& problem, const Gpu& gpu);

// Refuses, with UNSUPPORTED, what refusal() names.
GpuPlan make_gpu_plan(const core::Problem& problem, const Gpu& gpu);

// One JSON object.
std::string to_json(const GpuPlan& plan, const core::Problem& problem, const Gpu& gpu);

}  // namespace tessera::plan
