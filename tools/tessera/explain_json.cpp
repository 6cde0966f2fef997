#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/tessera/explain_report.hpp"

namespace tessera::tool {
namespace {

using Json = nlohmann::ordered_json;

Json number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

template <class T> Json numbers(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T x : values) list.push_back(number(double(x)));
  return list;
}

Json range(core::Range r) { return {r.begin, r.end}; }

Json options(const core::RowOptions& o) {
  Json json{{"keys", o.keys},
            {"block", o.block},
            {"dim", o.dim},
            {"seed", o.seed},
            {"dtype", core::name_of(o.dtype)}};
  json["row"] = o.band.bounded() ? Json(o.row) : Json();
  json["hidden"] = Json::array();
  for (const core::Range& r : o.hidden) json["hidden"].push_back(range(r));
  json["sink"] = o.sink ? number(double{*o.sink}) : Json();
  return json;
}

Json step_json(const core::RowStep& s) {
  return {{"keys", range(s.keys)},
          {"skipped", s.skipped},
          {"scores", numbers(s.scores)},
          {"m_before", number(double{s.m_before})},
          {"m", number(double{s.m})},
          {"grew", s.grew()},
          {"rescale", number(double{s.rescale})},
          {"p", numbers(s.p)},
          {"l", number(double{s.l})},
          {"o", numbers(s.o)},
          {"o_over_l", numbers(s.normalised)},
          {"error", number(s.error)}};
}

Json trace_json(const core::RowTrace& t) {
  Json json{{"options", options(t.options)},
            {"q", numbers(t.q)},
            {"k", numbers(t.k)},
            {"v", numbers(t.v)},
            {"scores", numbers(t.scores)},
            {"steps", Json::array()}};
  for (const core::RowStep& step : t.steps) json["steps"].push_back(step_json(step));
  json["out"] = numbers(t.end.normalised());
  json["lse"] = number(double{t.end.lse()});
  json["exact"] = {{"m", number(t.exact.m)},
                   {"l", number(t.exact.l)},
                   {"lse", number(t.exact.lse)},
                   {"out", numbers(t.exact.out)}};
  json["naive"] = numbers(t.naive);
  return json;
}

Json schedule_json(const core::Schedule& s, bool possible) {
  if (!possible) return {};
  return {{"flops", s.flops},
          {"bytes", s.bytes},
          {"flops_per_byte", s.intensity()},
          {"allocated_bytes", s.allocated}};
}

Json traffic_json(const TrafficRow& row) {
  const core::Traffic& t = row.traffic;
  const bool possible = t.tile.queries > 0;
  return {{"n", row.shape.queries},
          {"d", row.shape.dim},
          {"heads", row.shape.heads},
          {"element_bytes", row.shape.element_bytes},
          {"pass", row.shape.pass == core::Pass::kForward ? "forward" : "backward"},
          {"sram_bytes", row.sram_bytes},
          {"tile", possible ? Json{{"queries", t.tile.queries}, {"keys", t.tile.keys}} : Json()},
          {"tile_bytes", t.tile_bytes},
          {"fits", t.fits},
          {"standard", schedule_json(t.standard, true)},
          {"tiled", schedule_json(t.tiled, possible)},
          {"resident", schedule_json(t.resident, possible)},
          {"resident_cache_bytes", t.resident_bytes},
          {"law_bytes", t.law_bytes}};
}

}  // namespace

std::string to_json(const Explanation& explanation) {
  Json json{{"trace", trace_json(explanation.trace)}, {"traffic", Json::array()}};
  for (const TrafficRow& row : explanation.rows) json["traffic"].push_back(traffic_json(row));
  json["command"] = explanation.command;
  return json.dump();
}

}  // namespace tessera::tool
