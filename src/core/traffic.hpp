// What attention moves through slow memory: a model of standard and of tiled attention that do the
// same arithmetic. docs/how/traffic.md derives each formula.
//
// Slow memory is DRAM; fast memory is what a tile lives in (shared memory of one SM, a core's L1 or
// L2): `sram_bytes`, the M of Dao et al. 2022. Each operand of an operator, or tile of it, crosses
// once whenever the loops ask for it; `resident` has a cache between the two that keeps what the
// inner loop reads again.
#pragma once
#include <cstdint>
#include <optional>

namespace tessera::core {

enum class Pass : std::uint8_t { kForward, kBackward };

struct TrafficShape {
  std::int64_t heads = 1;  // batch times heads, each with keys and values of its own
  std::int64_t queries = 1024, keys = 1024;
  std::int64_t dim = 64, value_dim = 64;
  std::int64_t element_bytes = 4;  // of q, k, v, out and of the stored matrices; sums take 4
  Pass pass = Pass::kForward;
};

// Rows of q and rows of k and v that are in fast memory together.
struct TileSize {
  std::int64_t queries = 0, keys = 0;

  friend bool operator==(const TileSize&, const TileSize&) = default;
};

// Bytes of fast memory that tiles of this size take, by what they hold.
struct TileParts {
  std::int64_t operands = 0;    // of q, k and v; backward dO too
  std::int64_t sums = 0;        // O in float32; backward dQ, dK and dV
  std::int64_t statistics = 0;  // m and l; backward lse and delta
  std::int64_t scores = 0;      // S in float32; backward P and dP

  std::int64_t total() const { return operands + sums + statistics + scores; }
};
TileParts tile_parts(const TrafficShape& shape, TileSize tile);
inline std::int64_t tile_bytes(const TrafficShape& shape, TileSize tile) {
  return tile_parts(shape, tile).total();
}

// The tiles for a fast memory, as in Dao et al. 2022, Algorithm 1, with the roles of their FA-2
// loop: the outer tile as large as fits beside an inner one of min(outer, d) rows, so that the
// outer one grows as M / d. {0, 0} if not even single rows fit.
TileSize choose_tiles(const TrafficShape& shape, std::int64_t sram_bytes);

struct Schedule {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;      // across slow memory
  std::int64_t allocated = 0;  // in slow memory beyond inputs and outputs, at the most

  double intensity() const { return static_cast<double>(flops) / static_cast<double>(bytes); }
};

struct Traffic {
  TileSize tile;
  std::int64_t passes = 0;  // how often the inner loop reads its operands: once per outer tile
  TileParts tile_parts;
  std::int64_t tile_bytes = 0;
  bool fits = false;  // tile_bytes <= sram_bytes, at least one row each
  Schedule standard, tiled, resident;
  std::int64_t resident_bytes = 0;  // what the cache must keep for `resident`, for one head
  double law_bytes = 0;             // heads * Nq Nk d^2 / M in elements, as bytes; d = (D + Dv) / 2
};

// With `tile` absent, choose_tiles decides. tiled and resident are zeros where no tile is possible.
// Fails with INVALID_ARGUMENT for sizes below 1, or beyond what 63 bits count.
Traffic model_traffic(const TrafficShape& shape, std::int64_t sram_bytes,
                      std::optional<TileSize> tile = {});

}  // namespace tessera::core
