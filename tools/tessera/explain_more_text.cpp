// The texts of what is asked for beside the trace: workers, tiles, the roofline's machines.
#include <fmt/format.h>

#include "core/explain_presets.hpp"
#include "core/traffic_roofline.hpp"
#include "tools/tessera/explain_report.hpp"

namespace tessera::tool {
namespace {

// Tiles a side that a terminal shows.
constexpr std::int64_t kShownTiles = 64;

std::string state_line(const std::string& name, const core::RowState& s) {
  return fmt::format("  {:<20} {:>9.4f} {:>9.4f} {:>11.4f}\n", name, s.m, s.l,
                     s.normalised().front());
}

std::string merge_name(const core::SplitMerge& m) {
  return fmt::format("merge {} with {}", m.into, m.from);
}

std::string tile_row(const core::TileGrid& g, std::int64_t row) {
  std::string text = "  ";
  for (std::int64_t column = 0; column < std::min(g.columns, kShownTiles); ++column)
    text += "./#"[static_cast<int>(g.at(row, column))];
  return text + (g.columns > kShownTiles ? " ..\n" : "\n");
}

// A schedule that is impossible moves nothing.
std::string time_text(const core::Roof& roof, const core::Schedule& s) {
  if (s.bytes == 0) return fmt::format("{:>14}", "- ");
  const core::RoofTime t = core::time_under(roof, s);
  return fmt::format("{:>12.3e} {}", t.seconds, t.memory_bound ? "m" : " ");
}

}  // namespace

std::string to_text(const core::SplitTrace& split) {
  std::string text = fmt::format(
      "Split over {} workers: each absorbs its keys, then their states merge\n\n"
      "  {:<20} {:>9} {:>9} {:>11}\n",
      split.parts.size(), "state", "m", "l", "O / l [0]");
  for (std::size_t w = 0; w < split.parts.size(); ++w) {
    const core::Range keys = split.parts[w].keys;
    text += state_line(fmt::format("worker {}: [{}, {})", w, keys.begin, keys.end),
                       split.parts[w].state);
  }
  for (const core::SplitMerge& m : split.merges) text += state_line(merge_name(m), m.state);
  return text + fmt::format("\n  error: {:.1e} as a tree, {:.1e} one after the other\n",
                            split.tree_error, split.chain_error);
}

std::string to_text(const core::TileGrid& g) {
  std::string text = fmt::format("Tiles of {} queries x {} keys: # full, / masked, . skipped\n\n",
                                 g.options.rows, g.options.columns);
  for (std::int64_t row = 0; row < std::min(g.rows, kShownTiles); ++row) text += tile_row(g, row);
  if (g.rows > kShownTiles) text += "  ..\n";
  return text + fmt::format(
                    "\n  {} full, {} masked, {} skipped; {} of {} pairs are computed, {} "
                    "are visible\n",
                    g.full, g.masked, g.skipped, g.computed_pairs, g.pairs, g.visible_pairs);
}

std::string times_text(const std::vector<TrafficRow>& rows) {
  if (rows.empty() || !rows.front().roof) return "";
  const core::Roof& roof = *rows.front().roof;
  std::string text = fmt::format(
      "\nUnder a roof of {:g} flop/s and {:g} B/s (ridge at {:.1f} flop/B): seconds, m "
      "where memory is the limit\n\n{:>9} {:>13} {:>13} {:>13}\n",
      roof.flops_per_second, roof.bytes_per_second, roof.ridge(), "N", "standard", "tiled",
      "resident");
  for (const TrafficRow& row : rows) {
    text += fmt::format("{:>9}", row.shape.queries);
    for (const core::Schedule* s :
         {&row.traffic.standard, &row.traffic.tiled, &row.traffic.resident})
      text += time_text(roof, *s);
    text += "\n";
  }
  return text;
}

std::string catalogue_text() {
  std::string text = "Presets (--preset NAME)\n\n";
  for (const core::ExplainPreset& p : core::explain_presets())
    text += fmt::format("  {:<14} {}\n  {:<14} {}\n", p.name, p.words, "", p.lesson);
  text += "\nMachines (--gpu NAME)\n\n";
  for (const core::Machine& m : core::machines())
    text += fmt::format(
        "  {:<14} {}\n  {:<14} {:g} flop/s (16 bit), {:g} (float32), {:g} B/s, cache {} B, M {} B\n"
        "  {:<14} {}\n",
        m.name, m.title, "", m.flops_16, m.flops_32, m.bytes_per_second, m.cache_bytes,
        m.sram_bytes, "", m.source);
  return text;
}

}  // namespace tessera::tool
