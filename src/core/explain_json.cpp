#include "core/explain_json.hpp"

#include <cmath>
#include <string>

#include "core/explain_presets.hpp"

namespace tessera::core {
namespace {

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

Json range(Range r) {
  Json ends = Json::array();
  ends.push_back(r.begin);
  ends.push_back(r.end);
  return ends;
}

// null where nothing bounds the keys on that side.
Json side(std::int64_t keys) { return keys >= Band::kUnbounded ? Json::null() : Json(keys); }

Json options_json(const RowOptions& o) {
  Json hidden = Json::array();
  for (const Range& r : o.hidden) hidden.push_back(range(r));
  return {{"keys", o.keys},
          {"block", o.block},
          {"dim", o.dim},
          {"seed", o.seed},
          {"dtype", name_of(o.dtype)},
          {"gain", double{o.gain}},
          {"ramp", double{o.ramp}},
          {"shift", double{o.shift}},
          {"row", o.band.bounded() ? Json(o.row) : Json::null()},
          {"left", side(o.band.left)},
          {"right", side(o.band.right)},
          {"hidden", hidden},
          {"sink", o.sink ? number(double{*o.sink}) : Json::null()}};
}

Json step_json(const RowStep& s) {
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

Json state_json(const RowState& s) {
  return {{"m", number(double{s.m})},
          {"l", number(double{s.l})},
          {"o", numbers(s.o)},
          {"o_over_l", numbers(s.normalised())},
          {"lse", number(double{s.lse()})}};
}

Json exact_json(const ExactRow& e) {
  return {{"m", number(e.m)}, {"l", number(e.l)}, {"lse", number(e.lse)}, {"out", numbers(e.out)}};
}

Json merge_json(const SplitMerge& m) {
  return {{"level", m.level},
          {"into", m.into},
          {"from", m.from},
          {"rescale_into", number(double{m.rescale_into})},
          {"rescale_from", number(double{m.rescale_from})},
          {"state", state_json(m.state)}};
}

// A row of tiles: '.' skipped, '/' masked, '#' full.
std::string tiles_text(const TileGrid& g, std::int64_t row) {
  std::string text;
  for (std::int64_t column = 0; column < g.columns; ++column)
    text += "./#"[static_cast<int>(g.at(row, column))];
  return text;
}

Json schedule_json(const Schedule& s) {
  return {{"flops", s.flops},
          {"bytes", s.bytes},
          {"flops_per_byte", s.intensity()},
          {"allocated_bytes", s.allocated}};
}

Json time_json(const Roof& roof, const Schedule& s) {
  const RoofTime t = time_under(roof, s);
  return {{"seconds", t.seconds},
          {"flops_per_second", t.flops_per_second},
          {"bound", t.memory_bound ? "memory" : "compute"}};
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// A schedule, beside standard attention and under the roof.
Json compared_json(const TrafficRow& row, const Schedule& s) {
  const Schedule& standard = row.traffic.standard;
  Json json = schedule_json(s);
  json.add("standard_bytes_ratio", ratio(standard.bytes, s.bytes));
  json.add("standard_allocated_ratio", ratio(standard.allocated, s.allocated));
  json.add("law_ratio", static_cast<double>(s.bytes) / row.traffic.law_bytes);
  if (!row.roof) return json;
  json.add("time", time_json(*row.roof, s));
  json.add("standard_time_ratio",
           time_under(*row.roof, standard).seconds / time_under(*row.roof, s).seconds);
  return json;
}

Json tile_json(const Traffic& t) { return {{"queries", t.tile.queries}, {"keys", t.tile.keys}}; }

Json parts_json(const TileParts& p) {
  return {{"operands", p.operands},
          {"sums", p.sums},
          {"statistics", p.statistics},
          {"scores", p.scores}};
}

Json preset_json(const ExplainPreset& p) {
  return {{"name", p.name}, {"title", p.title}, {"words", p.words}, {"lesson", p.lesson}};
}

Json machine_json(const Machine& m) {
  return {{"name", m.name},
          {"title", m.title},
          {"flops_16", m.flops_16},
          {"flops_32", m.flops_32},
          {"bytes_per_second", m.bytes_per_second},
          {"cache_bytes", m.cache_bytes},
          {"sram_bytes", m.sram_bytes},
          {"source", m.source}};
}

}  // namespace

Json to_json(const RowTrace& t) {
  Json steps = Json::array();
  for (const RowStep& step : t.steps) steps.push_back(step_json(step));
  return {{"options", options_json(t.options)},
          {"q", numbers(t.q)},
          {"k", numbers(t.k)},
          {"v", numbers(t.v)},
          {"scores", numbers(t.scores)},
          {"start", state_json(t.start)},
          {"steps", steps},
          {"out", numbers(t.end.normalised())},
          {"lse", number(double{t.end.lse()})},
          {"exact", exact_json(t.exact)},
          {"naive", numbers(t.naive)}};
}

Json to_json(const SplitTrace& s) {
  Json parts = Json::array(), merges = Json::array();
  for (const SplitPart& part : s.parts)
    parts.push_back({{"keys", range(part.keys)}, {"state", state_json(part.state)}});
  for (const SplitMerge& merge : s.merges) merges.push_back(merge_json(merge));
  return {{"parts", parts},
          {"merges", merges},
          {"tree", state_json(s.tree)},
          {"tree_error", number(s.tree_error)},
          {"chain", state_json(s.chain)},
          {"chain_error", number(s.chain_error)}};
}

Json to_json(const TileGrid& g) {
  Json tiles = Json::array();
  for (std::int64_t row = 0; row < g.rows; ++row) tiles.push_back(tiles_text(g, row));
  return {{"queries", g.options.queries},
          {"keys", g.options.keys},
          {"tile", {{"queries", g.options.rows}, {"keys", g.options.columns}}},
          {"left", side(g.options.band.left)},
          {"right", side(g.options.band.right)},
          {"offset", g.options.band.offset},
          {"tiles", tiles},
          {"skipped", g.skipped},
          {"masked", g.masked},
          {"full", g.full},
          {"pairs", g.pairs},
          {"visible_pairs", g.visible_pairs},
          {"computed_pairs", g.computed_pairs},
          {"computed_share", ratio(g.computed_pairs, g.pairs)},
          {"visible_share", ratio(g.visible_pairs, g.pairs)}};
}

Json to_json(const Roof& roof) {
  Json line = Json::array();
  for (const double intensity : {0x1p-4, roof.ridge(), 0x1p16}) {
    Json point = Json::array();
    point.push_back(intensity);
    point.push_back(roof.at(intensity));
    line.push_back(point);
  }
  return {{"flops_per_second", roof.flops_per_second},
          {"bytes_per_second", roof.bytes_per_second},
          {"cache_bytes", roof.cache_bytes},
          {"ridge", roof.ridge()},
          {"line", line}};
}

Json to_json(const TrafficRow& row) {
  const Traffic& t = row.traffic;
  const bool possible = t.tile.queries > 0;
  Json standard = schedule_json(t.standard);
  if (row.roof) standard.add("time", time_json(*row.roof, t.standard));
  Json json{{"n", row.shape.queries},
            {"d", row.shape.dim},
            {"heads", row.shape.heads},
            {"element_bytes", row.shape.element_bytes},
            {"pass", row.shape.pass == Pass::kForward ? "forward" : "backward"},
            {"sram_bytes", row.sram_bytes},
            {"sram_elements", ratio(row.sram_bytes, row.shape.element_bytes)},
            {"tile", possible ? tile_json(t) : Json::null()},
            {"passes", t.passes},
            {"tile_bytes", t.tile_bytes},
            {"tile_parts", parts_json(t.tile_parts)},
            {"fits", t.fits},
            {"standard", standard},
            {"tiled", possible ? compared_json(row, t.tiled) : Json::null()},
            {"resident", possible ? compared_json(row, t.resident) : Json::null()},
            {"resident_cache_bytes", t.resident_bytes},
            {"law_bytes", t.law_bytes}};
  if (row.roof && row.roof->cache_bytes > 0)
    json.add("cache_holds", t.resident_bytes <= row.roof->cache_bytes);
  return json;
}

Json trace_json(const ExplainRequest& request) {
  const RowTrace trace = request.trace();
  Json json{{"trace", to_json(trace)}};
  if (request.workers > 0) json.add("split", to_json(request.split(trace)));
  return json;
}

Json grid_json(const ExplainRequest& request) { return {{"grid", to_json(request.grid())}}; }

Json traffic_json(const ExplainRequest& request) {
  Json rows = Json::array();
  for (const TrafficRow& row : request.traffic()) rows.push_back(to_json(row));
  Json json{{"traffic", rows}};
  if (const auto roof = request.roof()) json.add("roof", to_json(*roof));
  return json;
}

Json catalogue_json() {
  Json presets = Json::array(), all_machines = Json::array();
  for (const ExplainPreset& preset : explain_presets()) presets.push_back(preset_json(preset));
  for (const Machine& machine : machines()) all_machines.push_back(machine_json(machine));
  return {{"presets", presets}, {"machines", all_machines}};
}

}  // namespace tessera::core
