// A launch of the driver that is none may be carried out: by the emulator, in the memory of the
// host. FAKE_CUDA_COMPUTE asks for it, so that whole programs can be tested without a GPU.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "device/kernel/forward_sm80.cuh"
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
                   memory, [&launch] { device::forward<C>(launch.params); });
}

struct Row {
  const char* kernel;
  void (*run)(Cuda&, const Launch&);
};
constexpr Row kKernels[] = {
    {"forward_sm80_float16_d64", forward<device::Config<device::Float16, 64>>},
    {"forward_sm80_float16_d128", forward<device::Config<device::Float16, 128>>},
    {"forward_sm80_float16_d256", forward<device::Config<device::Float16, 256>>},
    {"forward_sm80_bfloat16_d64", forward<device::Config<device::Bfloat16, 64>>},
    {"forward_sm80_bfloat16_d128", forward<device::Config<device::Bfloat16, 128>>},
    {"forward_sm80_bfloat16_d256", forward<device::Config<device::Bfloat16, 256>>},
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
