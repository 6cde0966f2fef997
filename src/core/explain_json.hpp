// What explain computes, as JSON: the same text from the command line and from WebAssembly.
//
// Numbers have all their digits; those that JSON has no word for are the strings "inf", "-inf" and
// "nan".
#pragma once
#include "core/explain_request.hpp"
#include "core/json.hpp"

namespace tessera::core {

Json to_json(const RowTrace& trace);
Json to_json(const SplitTrace& split);
Json to_json(const TileGrid& grid);
Json to_json(const Roof& roof);
Json to_json(const TrafficRow& row);

// {"trace": ...}, and with --workers "split".
Json trace_json(const ExplainRequest& request);
// {"grid": ...}
Json grid_json(const ExplainRequest& request);
// {"traffic": [...]}, and with rates "roof".
Json traffic_json(const ExplainRequest& request);
// {"presets": [...], "machines": [...]}
Json catalogue_json();

}  // namespace tessera::core
