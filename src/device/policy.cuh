// Tile numbers as data: what a kernel is compiled for, by architecture, direction and head
// dimension. Planners read the same rows.
#pragma once
#include "device/params.cuh"
#include "device/types.cuh"

namespace tessera::device {

enum class Direction : int { kForward };

// What a call asks for. kBand: a band, lengths and packed sequences, of rows that 16-byte copies can
// read. kAny: scores that are changed or masked pair by pair, pages and any strides too.
enum class Options : int { kBand, kAny };

constexpr Options options_of(const ForwardParams& p) {
  const bool pairs = p.score.adjusts || p.score.mask.data;
  const bool chunks = p.q_vectors && p.k_vectors && p.v_vectors;
  return pairs || p.pages.table.data || !chunks ? Options::kAny : Options::kBand;
}

struct PolicyRow {
  int arch;  // the oldest that runs it
  Direction direction;
  Options options;
  int dim;     // head dimensions up to this one
  int warps;   // of a block
  int blocks;  // of 16 query rows, that a warp computes
  int tile_k;  // keys of a step
  int stages;  // of keys and values in shared memory
};

inline constexpr PolicyRow kPolicies[] = {
    //                                      dim warps blocks tile_k stages    shared memory
    {80, Direction::kForward, Options::kBand, 64, 4, 2, 96, 2},   // 64 KiB
    {80, Direction::kForward, Options::kBand, 128, 4, 2, 48, 2},  // 80 KiB
    {80, Direction::kForward, Options::kBand, 256, 4, 1, 32, 2},  // 96 KiB: all GPUs have 99
    {80, Direction::kForward, Options::kAny, 64, 4, 1, 64, 2},    // 40 KiB
    {80, Direction::kForward, Options::kAny, 128, 4, 1, 64, 2},   // 80 KiB
    {80, Direction::kForward, Options::kAny, 256, 4, 1, 32, 2},   // 96 KiB
};

// The row for a head dimension (the larger of D and Dv); that of dim 0 where there is none.
constexpr PolicyRow policy_for(int arch, Direction direction, Options options, int dim) {
  for (const PolicyRow& row : kPolicies)
    if (row.arch <= arch && row.direction == direction && row.options == options && dim <= row.dim)
      return row;
  return {arch, direction, options, 0, 0, 0, 0, 0};
}

// What a kernel is a template of. T: Float16 or Bfloat16.
template <class Element, int dim, Options options> struct Config {
  using T = Element;
  static constexpr PolicyRow kRow = policy_for(80, Direction::kForward, options, dim);
  static constexpr bool kAny = options == Options::kAny;
  static constexpr int kDim = kRow.dim;
  static constexpr int kBlocks = kRow.blocks, kThreads = 32 * kRow.warps;
  static constexpr int kWarpRows = 16 * kBlocks, kTileQ = kWarpRows * kRow.warps;
  static constexpr int kTileK = kRow.tile_k, kStages = kRow.stages;
  // Of an SM, for the launch bounds. Where they leave it open ptxas aims at three for dim 64, and
  // spills.
  static constexpr int kLeastBlocks = 1;
  static constexpr int kQueryBytes = kTileQ * kDim * 2, kKeyBytes = kTileK * kDim * 2;
  static constexpr int kSharedBytes = kQueryBytes + 2 * kStages * kKeyBytes;
};

}  // namespace tessera::device
