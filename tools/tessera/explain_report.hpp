// What explain computes, as JSON and as text.
#pragma once
#include <string>
#include <vector>

#include "core/explain_request.hpp"

namespace tessera::tool {

using core::TrafficRow;

// One object without a line break: what core/explain_json.hpp writes, and the command.
std::string to_json(const core::ExplainRequest& request, const std::string& command);

std::string to_text(const core::RowTrace& trace);
std::string to_text(const core::SplitTrace& split);
std::string to_text(const core::TileGrid& grid);
std::string to_text(const std::vector<TrafficRow>& rows);
// Seconds under the roof; empty where there is none.
std::string times_text(const std::vector<TrafficRow>& rows);
std::string catalogue_text();

}  // namespace tessera::tool
