// Of a library that was built without the GPU in software.
#include "api/gpu.hpp"
#include "core/error.hpp"

namespace tessera::api {
namespace {

constexpr std::string_view kWhy =
    "backend is TESSERA_BACKEND_EMULATOR (5), which this library was built without; it is in "
    "builds for x86-64 Linux with TESSERA_EMULATOR=ON: choose another backend";

}  // namespace

bool has_software_gpu() { return false; }

void run_in_software(const Call&) { core::fail(core::Status::kUnsupported, kWhy); }

std::string describe_software_plan(const Call&) { core::fail(core::Status::kUnsupported, kWhy); }

}  // namespace tessera::api
