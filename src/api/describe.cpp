// The context as JSON.
#include "api/context.hpp"
#include "api/gpu.hpp"
#include "core/json.hpp"
#include "tessera/version.h"

namespace tessera::api {
namespace {

using core::Json;

Json targets_json() {
  Json all = Json::array();
  for (const cpu::TargetInfo& target : cpu::targets())
    all.push_back({{"name", target.name}, {"lanes", target.lanes}, {"present", target.present}});
  return all;
}

// g++ calls itself by its number alone.
std::string compiler() {
  const std::string version = __VERSION__;
  return version.front() >= '0' && version.front() <= '9' ? "g++ " + version : version;
}

}  // namespace

std::string Context::describe() const {
  const Json json{{"version", TESSERA_VERSION_STRING},
                  {"target", target_.name},
                  {"why_target", target_.why},
                  {"targets", targets_json()},
                  {"threads", threads_.count},
                  {"why_threads", threads_.why},
                  {"executor", lent_threads_ ? "lent by the caller" : "a pool of its own"},
                  {"allocator", lent_memory_ ? "lent by the caller" : "the C++ library's"},
                  {"emulator", has_software_gpu()},
                  {"build", {{"compiler", compiler()}, {"flags", TESSERA_BUILD_FLAGS}}}};
  return json.text();
}

}  // namespace tessera::api
