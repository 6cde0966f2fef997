#include "core/explain_json.hpp"

#include "tools/tessera/explain_report.hpp"

namespace tessera::tool {
namespace {

// The members of an object, without its braces.
std::string members(const core::Json& object) {
  return object.text().substr(1, object.text().size() - 2);
}

}  // namespace

std::string to_json(const core::ExplainRequest& request, const std::string& command) {
  std::string json = "{" + members(core::trace_json(request));
  if (request.grid_rows > 0) json += "," + members(core::grid_json(request));
  return json + "," + members(core::traffic_json(request)) + "," + members({{"command", command}}) +
         "}";
}

}  // namespace tessera::tool
