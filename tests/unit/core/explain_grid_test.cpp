#include "core/explain_grid.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tessera::test {
namespace {

using core::Band;
using core::GridOptions;
using core::tile_grid;
using core::TileGrid;
using core::TileKind;

// Tile by tile, pair by pair.
void expect_as_counted(const GridOptions& o) {
  const TileGrid grid = tile_grid(o);
  std::int64_t visible = 0, computed = 0, kinds[3] = {};
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t column = 0; column < grid.columns; ++column) {
      std::int64_t seen = 0, pairs = 0;
      for (std::int64_t i = row * o.rows; i < std::min(o.queries, (row + 1) * o.rows); ++i)
        for (std::int64_t j = column * o.columns; j < std::min(o.keys, (column + 1) * o.columns);
             ++j, ++pairs)
          seen += o.band.sees(i, j);
      const TileKind kind = seen == 0       ? TileKind::kSkipped
                            : seen == pairs ? TileKind::kFull
                                            : TileKind::kMasked;
      EXPECT_EQ(grid.at(row, column), kind) << row << " " << column;
      ++kinds[static_cast<int>(kind)];
      visible += seen;
      computed += seen > 0 ? pairs : 0;
    }
  EXPECT_EQ(grid.visible_pairs, visible);
  EXPECT_EQ(grid.computed_pairs, computed);
  EXPECT_EQ(grid.skipped, kinds[0]);
  EXPECT_EQ(grid.masked, kinds[1]);
  EXPECT_EQ(grid.full, kinds[2]);
}

TEST(TileGrid, EveryTileIsWhatItsPairsSay) {
  for (const Band band : {Band{}, Band{.right = 0}, Band{.left = 5, .right = 0},
                          Band{.left = 3, .right = 4}, Band{.left = 0, .right = 0}})
    for (const std::int64_t offset : {-9, 0, 6})
      for (const std::int64_t rows : {1, 4, 7}) {
        GridOptions o{.queries = 23, .keys = 29, .rows = rows, .columns = 5, .band = band};
        o.band.offset = offset;
        expect_as_counted(o);
      }
}

TEST(TileGrid, RefusesWhatNobodyCanDraw) {
  EXPECT_THROW(tile_grid({.queries = 0}), core::Error);
  EXPECT_THROW(tile_grid({.rows = 0}), core::Error);
  EXPECT_THROW(tile_grid({.queries = 1 << 12, .keys = 1 << 12, .rows = 8, .columns = 8}),
               core::Error);
}

}  // namespace
}  // namespace tessera::test
