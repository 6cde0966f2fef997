// Of a library that was built without its GPU part.
#include "api/gpu.hpp"
#include "core/error.hpp"

namespace tessera::api {
namespace {

constexpr std::string_view kWhy =
    "this library was built without its GPU part, which needs Linux and TESSERA_CUDA other than "
    "OFF; build it so, or copy the tensors to the CPU";

}  // namespace

void run_on_gpu(const Call&) { core::fail(core::Status::kUnsupported, kWhy); }

std::string describe_gpu_plan(const Call&) { core::fail(core::Status::kUnsupported, kWhy); }

core::Json gpu_json() { return {{"why_not", kWhy}, {"devices", core::Json::array()}}; }

}  // namespace tessera::api
