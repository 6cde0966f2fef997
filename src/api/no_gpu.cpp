// Of a library that was built without its GPU part.
#include "api/gpu.hpp"
#include "core/error.hpp"
#include "core/json.hpp"

namespace tessera::api {
namespace {

constexpr std::string_view kWhy =
    "this library was built without its GPU part, which needs Linux and TESSERA_CUDA other than "
    "OFF; build it so, or copy the tensors to the CPU";

}  // namespace

void run_on_gpu(const Call&) { core::fail(core::Status::kUnsupported, kWhy); }

std::string describe_gpu_plan(const Call&) { core::fail(core::Status::kUnsupported, kWhy); }

std::string describe_gpus() {
  const core::Json json{{"driver", core::Json{{"why_not", kWhy}}},
                        {"devices", core::Json::array()}};
  return json.text();
}

}  // namespace tessera::api
