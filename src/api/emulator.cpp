#include "emulator/backend.hpp"

#include "api/gpu.hpp"

namespace tessera::api {

bool has_software_gpu() { return true; }

void run_in_software(const Call& call) { emulator::run(call.problem); }

std::string describe_software_plan(const Call& call) { return emulator::describe(call.problem); }

}  // namespace tessera::api
