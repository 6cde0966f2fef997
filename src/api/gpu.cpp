#include "api/gpu.hpp"

#include "cuda/engine.hpp"

namespace tessera::api {
namespace {

using core::Json;

Json reason(const std::string& why_not) { return why_not.empty() ? Json::null() : Json(why_not); }

Json device_json(const plan::Gpu& gpu) {
  return {{"name", gpu.name},
          {"arch", gpu.arch},
          {"multiprocessors", gpu.multiprocessors},
          {"shared_bytes", gpu.shared_bytes},
          {"memory_bytes", gpu.memory_bytes}};
}

Json nvrtc_json() {
  const cuda::Nvrtc& nvrtc = cuda::Nvrtc::system();
  return {
      {"version", nvrtc.version()}, {"path", nvrtc.path()}, {"why_not", reason(nvrtc.why_not())}};
}

Json cache_json() {
  const cuda::Cache cache(cuda::Cache::default_folder());
  std::int64_t bytes = 0, count = 0;
  for (const cuda::Cache::Entry& entry : cache.entries()) bytes += entry.bytes, ++count;
  return {{"folder", cache.folder()},
          {"kernels", count},
          {"bytes", bytes},
          {"why_not", reason(cache.why_not())}};
}

}  // namespace

void run_on_gpu(const Call& call) {
  cuda::Engine& engine = cuda::Engine::system();
  const plan::GpuPlan plan = plan::make_gpu_plan(call.problem, engine.gpu(call.where.id));
  engine.run(call.problem, plan, call.where.id, call.stream);
}

std::string describe_gpu_plan(const Call& call) {
  const plan::Gpu& gpu = cuda::Engine::system().gpu(call.where.id);
  return plan::to_json(plan::make_gpu_plan(call.problem, gpu), call.problem, gpu);
}

Json gpu_json() {
  const cuda::Driver& driver = cuda::Driver::system();
  Json devices = Json::array();
  for (const plan::Gpu& gpu : driver.gpus()) devices.push_back(device_json(gpu));
  return {{"driver", driver.version()}, {"why_not", reason(driver.why_not())},
          {"devices", devices},         {"kernels_ahead", std::int64_t(cuda::images().size())},
          {"nvrtc", nvrtc_json()},      {"cache", cache_json()}};
}

}  // namespace tessera::api
