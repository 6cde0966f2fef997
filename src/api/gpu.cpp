#include "api/gpu.hpp"

#include "core/json.hpp"
#include "cuda/engine.hpp"

namespace tessera::api {
namespace {

using core::Json;

// Of a part that may be missing: its facts, or why there are none.
Json facts_or(const std::string& why_not, const Json& facts) {
  return why_not.empty() ? facts : Json{{"why_not", why_not}};
}

Json device_json(const plan::Gpu& gpu) {
  return {{"name", gpu.name},
          {"arch", gpu.arch},
          {"multiprocessors", gpu.multiprocessors},
          {"shared_bytes", gpu.shared_bytes},
          {"memory_bytes", gpu.memory_bytes}};
}

Json nvrtc_json() {
  const cuda::Nvrtc& nvrtc = cuda::Nvrtc::system();
  return facts_or(nvrtc.why_not(), {{"version", nvrtc.version()}, {"path", nvrtc.path()}});
}

Json cache_json() {
  const cuda::Cache cache(cuda::Cache::default_folder(), cuda::Missing::kStays);
  std::int64_t bytes = 0, count = 0;
  for (const cuda::Cache::Entry& entry : cache.entries()) bytes += entry.bytes, ++count;
  return facts_or(cache.why_not(),
                  {{"folder", cache.folder()}, {"kernels", count}, {"bytes", bytes}});
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

std::string describe_gpus() {
  const cuda::Driver& driver = cuda::Driver::system();
  Json devices = Json::array();
  for (const plan::Gpu& gpu : driver.gpus()) devices.push_back(device_json(gpu));
  const Json json{{"driver", facts_or(driver.why_not(), {{"version", driver.version()}})},
                  {"devices", devices},
                  {"kernels_compiled_ahead", std::int64_t(cuda::images().size())},
                  {"nvrtc", nvrtc_json()},
                  {"cache", cache_json()}};
  return json.text();
}

}  // namespace tessera::api
