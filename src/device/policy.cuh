// Tile numbers as data: what a kernel is compiled for, by architecture, direction and head
// dimension. Planners read the same rows.
#pragma once
#include "device/types.cuh"

namespace tessera::device {

enum class Direction : int { kForward };

struct PolicyRow {
  int arch;  // the oldest that runs it
  Direction direction;
  int dim;     // head dimensions up to this one
  int tile_q;  // query rows of a block, 16 for each warp
  int tile_k;  // keys of a step
  int stages;  // of keys and values in shared memory
};

inline constexpr PolicyRow kPolicies[] = {
    //                        dim tile_q tile_k stages    shared memory
    {80, Direction::kForward, 64, 64, 64, 2},   // 40 KiB
    {80, Direction::kForward, 128, 64, 64, 2},  // 80 KiB
    {80, Direction::kForward, 256, 64, 32, 2},  // 96 KiB: every GPU since sm_80 has 99
};

// The row for a head dimension (the larger of D and Dv); that of dim 0 where there is none.
constexpr PolicyRow policy_for(int arch, Direction direction, int dim) {
  for (const PolicyRow& row : kPolicies)
    if (row.arch <= arch && row.direction == direction && dim <= row.dim) return row;
  return {arch, direction, 0, 0, 0, 0};
}

// What a kernel is a template of. T: Float16 or Bfloat16.
template <class Element, int dim> struct Config {
  using T = Element;
  static constexpr PolicyRow kRow = policy_for(80, Direction::kForward, dim);
  static constexpr int kDim = kRow.dim;
  static constexpr int kTileQ = kRow.tile_q, kTileK = kRow.tile_k, kStages = kRow.stages;
  static constexpr int kThreads = kTileQ / 16 * 32;
  // Of an SM, for the launch bounds. Where they leave it open ptxas aims at three for dim 64, and
  // spills.
  static constexpr int kLeastBlocks = 1;
  static constexpr int kQueryBytes = kTileQ * kDim * 2, kKeyBytes = kTileK * kDim * 2;
  static constexpr int kSharedBytes = kQueryBytes + 2 * kStages * kKeyBytes;
};

}  // namespace tessera::device
