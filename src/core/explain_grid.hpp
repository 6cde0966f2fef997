// All tiles of the matrix of scores: which of them a band of visible keys skips.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/band.hpp"

namespace tessera::core {

enum class TileKind : std::uint8_t {
  kSkipped,  // no pair is visible: neither read nor computed
  kMasked,   // some are: computed whole, then masked
  kFull,     // all are
};

struct GridOptions {
  std::int64_t queries = 64, keys = 64;
  std::int64_t rows = 8, columns = 8;  // of one tile
  Band band =
      {};  // the caller sets its offset: keys - queries lets the last query see the last key
};

struct TileGrid {
  GridOptions options = {};
  std::int64_t rows = 0, columns = 0;  // tiles
  std::vector<TileKind> tiles = {};    // [rows, columns]
  std::int64_t skipped = 0, masked = 0, full = 0;
  std::int64_t pairs = 0;           // of a query and a key
  std::int64_t visible_pairs = 0;   // what has to be computed
  std::int64_t computed_pairs = 0;  // what is, since tiles are computed whole

  TileKind at(std::int64_t row, std::int64_t column) const {
    return tiles[static_cast<std::size_t>(row * columns + column)];
  }
};

// Fails with INVALID_ARGUMENT for sizes below 1 and for more than 2^16 tiles.
TileGrid tile_grid(const GridOptions& options);

}  // namespace tessera::core
