// The step trace and the traffic model as JSON and as text.
#pragma once
#include <string>
#include <vector>

#include "core/explain.hpp"
#include "core/traffic.hpp"

namespace tessera::tool {

struct TrafficRow {
  core::TrafficShape shape;
  std::int64_t sram_bytes = 0;
  core::Traffic traffic;
};

struct Explanation {
  core::RowTrace trace;
  std::vector<TrafficRow> rows;
  std::string command;
};

// One object without a line break. Numbers that JSON has no word for are strings: "inf", "-inf" and
// "nan".
std::string to_json(const Explanation& explanation);

std::string to_text(const core::RowTrace& trace);
std::string to_text(const std::vector<TrafficRow>& rows);

}  // namespace tessera::tool
