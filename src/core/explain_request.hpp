// What `tessera explain` and the web page ask for, option by option, in the same words.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/explain.hpp"
#include "core/explain_grid.hpp"
#include "core/explain_split.hpp"
#include "core/traffic.hpp"
#include "core/traffic_roofline.hpp"

namespace tessera::core {

struct TrafficRow {
  TrafficShape shape;
  std::int64_t sram_bytes = 0;
  Traffic traffic;
  std::optional<Roof> roof = {};
};

struct ExplainRequest {
  RowOptions row;
  std::optional<std::int64_t> n, d;   // of the trace and of the model, which have defaults each
  std::optional<std::int64_t> query;  // the row of the band; without it the last one
  std::optional<Band> window;
  std::int64_t workers = 0;    // 0: the row is not split
  std::int64_t grid_rows = 0;  // queries of a tile; 0: no picture of tiles
  std::optional<std::int64_t> queries;
  std::vector<std::int64_t> lengths;
  std::optional<TileSize> tile;
  std::int64_t heads = 1, batch = 1;
  Pass pass = Pass::kForward;
  const Machine* machine = nullptr;
  std::optional<double> flops_per_second, bytes_per_second;  // in place of the machine's
  std::optional<std::int64_t> cache_bytes, sram_bytes;

  // Fails with INVALID_ARGUMENT: unknown options, and texts that do not fit theirs.
  void set(std::string_view flag, std::string_view text);
  // "--n 16 --block 4": options with one value each, separated by single spaces.
  void set_words(std::string_view words);

  RowTrace trace() const;
  SplitTrace split(const RowTrace& trace) const { return split_row(trace, workers); }
  TileGrid grid() const;
  std::vector<TrafficRow> traffic() const;  // one for each length
  std::optional<Roof> roof() const;         // none where no machine is named and no rates are given
};

struct ExplainOption {
  const char *group, *flag, *value, *help;
  void (*read)(ExplainRequest& request, std::string_view text);
};
std::span<const ExplainOption> explain_options();

}  // namespace tessera::core
