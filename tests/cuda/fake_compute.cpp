// A launch of the driver that is none may be carried out: by the emulator, in the memory of the
// host. FAKE_CUDA_COMPUTE asks for it, so that whole programs can be tested without a GPU.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "device/kernel/forward_all.cuh"
#include "emulator/grid.hpp"
#include "fake/fake_driver.hpp"

namespace tessera::fake {
namespace {

template <class C> void forward(Cuda& cuda, const Launch& launch) {
  emulator::GlobalMemory memory;
  for (const auto& [place, bytes] : cuda.memory)
    memory.output("memory", reinterpret_cast<void*>(place), bytes, true);
  emulator::launch({.grid = {int(launch.grid[0]), int(launch.grid[1]), int(launch.grid[2])},
                    .threads = int(launch.block[0]),
                    .shared_bytes = launch.shared_bytes},
                   memory, [&launch] { device::forward_of<C>(launch.params); });
}

struct Row {
  const char* kernel;
  void (*run)(Cuda&, const Launch&);
};
using enum device::Weighing;
using device::Bfloat16, device::Float16;
template <class T, int dim, device::Weighing weighing>
constexpr auto row = forward<device::Config<T, dim, weighing>>;

constexpr Row kKernels[] = {
    {"forward_sm80_float16_d64_band", row<Float16, 64, kBand>},
    {"forward_sm80_float16_d128_band", row<Float16, 128, kBand>},
    {"forward_sm80_float16_d256_band", row<Float16, 256, kBand>},
    {"forward_sm80_bfloat16_d64_band", row<Bfloat16, 64, kBand>},
    {"forward_sm80_bfloat16_d128_band", row<Bfloat16, 128, kBand>},
    {"forward_sm80_bfloat16_d256_band", row<Bfloat16, 256, kBand>},
    {"forward_sm80_float16_d64_pairs", row<Float16, 64, kPairs>},
    {"forward_sm80_float16_d128_pairs", row<Float16, 128, kPairs>},
    {"forward_sm80_bfloat16_d64_pairs", row<Bfloat16, 64, kPairs>},
    {"forward_sm80_bfloat16_d128_pairs", row<Bfloat16, 128, kPairs>},
    {"forward_sm80_float16_d64_rounded", row<Float16, 64, kRounded>},
    {"forward_sm80_float16_d128_rounded", row<Float16, 128, kRounded>},
    {"forward_sm80_float16_d256_rounded", row<Float16, 256, kRounded>},
    {"forward_sm80_float16_d512_rounded", row<Float16, 512, kRounded>},
    {"forward_sm80_bfloat16_d64_rounded", row<Bfloat16, 64, kRounded>},
    {"forward_sm80_bfloat16_d128_rounded", row<Bfloat16, 128, kRounded>},
    {"forward_sm80_bfloat16_d256_rounded", row<Bfloat16, 256, kRounded>},
    {"forward_sm80_bfloat16_d512_rounded", row<Bfloat16, 512, kRounded>},
    {"forward_sm80_float16_d64_exact", row<Float16, 64, kExact>},
    {"forward_sm80_float16_d128_exact", row<Float16, 128, kExact>},
    {"forward_sm80_float16_d256_exact", row<Float16, 256, kExact>},
    {"forward_sm80_float16_d512_exact", row<Float16, 512, kExact>},
    {"forward_sm80_bfloat16_d64_exact", row<Bfloat16, 64, kExact>},
    {"forward_sm80_bfloat16_d128_exact", row<Bfloat16, 128, kExact>},
    {"forward_sm80_bfloat16_d256_exact", row<Bfloat16, 256, kExact>},
    {"forward_sm80_bfloat16_d512_exact", row<Bfloat16, 512, kExact>},
    {"forward_sm80_float32_d64_words", row<float, 64, kFloat32>},
    {"forward_sm80_float32_d128_words", row<float, 128, kFloat32>},
    {"forward_sm80_float32_d256_words", row<float, 256, kFloat32>},
    {"forward_sm80_float32_d512_words", row<float, 512, kFloat32>},
};

// Whether there is such a kernel and it kept to the rules.
bool carry_out(Cuda& cuda, const Launch& launch) {
  for (const Row& row : kKernels) {
    if (launch.kernel != row.kernel) continue;
    try {
      row.run(cuda, launch);
      return true;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "fake GPU: %s\n", e.what());
    }
  }
  return false;
}

}  // namespace

bool (*compute_of_environment())(Cuda&, const Launch&) {
  return std::getenv("FAKE_CUDA_COMPUTE") == nullptr ? nullptr : carry_out;
}

}  // namespace tessera::fake
