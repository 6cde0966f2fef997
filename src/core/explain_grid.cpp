#include "core/explain_grid.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace tessera::core {
namespace {

constexpr std::int64_t kMostTiles = std::int64_t{1} << 16, kLargest = std::int64_t{1} << 20;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void require_size(const char* name, std::int64_t value) {
  if (1 <= value && value <= kLargest) return;
  fail(Status::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                     "; the picture of tiles takes 1 to " +
                                     std::to_string(kLargest));
}

void check(const GridOptions& o) {
  require_size("the number of queries", o.queries);
  require_size("the number of keys", o.keys);
  require_size("the rows of a tile", o.rows);
  require_size("the keys of a tile", o.columns);
  const std::int64_t tiles = ceil_div(o.queries, o.rows) * ceil_div(o.keys, o.columns);
  if (tiles <= kMostTiles) return;
  fail(Status::kInvalidArgument, "these are " + std::to_string(tiles) +
                                     " tiles; the picture takes at most " +
                                     std::to_string(kMostTiles) + " (make the tiles larger)");
}

TileKind kind_of(const Band& band, Range rows, Range keys) {
  if ((band.seen_by_any(rows) & keys).empty()) return TileKind::kSkipped;
  return band.seen_by_all(rows).contains(keys) ? TileKind::kFull : TileKind::kMasked;
}

void count(TileGrid& grid, TileKind kind, std::int64_t area) {
  (kind == TileKind::kSkipped  ? grid.skipped
   : kind == TileKind::kMasked ? grid.masked
                               : grid.full) += 1;
  if (kind != TileKind::kSkipped) grid.computed_pairs += area;
}

void add_tile(TileGrid& grid, std::int64_t row, std::int64_t column) {
  const GridOptions& o = grid.options;
  const Range rows{row * o.rows, std::min(o.queries, (row + 1) * o.rows)};
  const Range keys{column * o.columns, std::min(o.keys, (column + 1) * o.columns)};
  grid.tiles.push_back(kind_of(o.band, rows, keys));
  count(grid, grid.tiles.back(), rows.size() * keys.size());
}

}  // namespace

TileGrid tile_grid(const GridOptions& o) {
  check(o);
  TileGrid grid{.options = o,
                .rows = ceil_div(o.queries, o.rows),
                .columns = ceil_div(o.keys, o.columns),
                .pairs = o.queries * o.keys};
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t column = 0; column < grid.columns; ++column) add_tile(grid, row, column);
  for (std::int64_t i = 0; i < o.queries; ++i) {
    const Range seen = o.band.seen_by_any({i, i + 1}) & Range{0, o.keys};
    grid.visible_pairs += std::max<std::int64_t>(seen.size(), 0);
  }
  return grid;
}

}  // namespace tessera::core
