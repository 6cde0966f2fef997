#include "cuda/launch.hpp"

#include "plan/params.hpp"

namespace tessera::cuda {

void launch(const Driver& driver, KernelHandle kernel, const core::Problem& problem,
            const plan::GpuPlan& plan, StreamHandle stream) {
  device::ForwardParams params = plan::forward_params(problem);
  void* parameters[] = {&params};
  const LaunchConfig config{.grid_x = unsigned(plan.grid.x),
                            .grid_y = unsigned(plan.grid.y),
                            .grid_z = unsigned(plan.grid.z),
                            .block_x = unsigned(plan.threads),
                            .block_y = 1,
                            .block_z = 1,
                            .shared_bytes = unsigned(plan.shared_bytes),
                            .stream = stream,
                            .attributes = nullptr,
                            .attribute_count = 0};
  // "Kernel CUfunction or Kernel CUkernel to launch": the latter in whatever context is current.
  driver.check(driver->LaunchKernelEx(&config, reinterpret_cast<FunctionHandle>(kernel), parameters,
                                      nullptr),
               "cuLaunchKernelEx");
}

}  // namespace tessera::cuda
