// Tile numbers of kernels that are built of warpgroups (sm_90a). Planners read the same rows.
#pragma once
#include "device/policy.cuh"

namespace tessera::device {

struct WarpgroupPolicy {
  Direction direction;
  int dim;         // head dimensions up to this one
  int tile_q;      // query rows of a block, 64 for each consumer
  int tile_k;      // keys of a step
  int stages;      // of keys and of values in shared memory
  int give, take;  // registers of a thread that copies, and of one that computes
};

inline constexpr WarpgroupPolicy kWarpgroupPolicies[] = {
    //                    dim tile_q tile_k stages give take    shared memory
    {Direction::kForward, 64, 128, 128, 2, 24, 240},   // 80 KiB
    {Direction::kForward, 128, 128, 128, 2, 24, 240},  // 160 KiB: sm_90 has 227
};

// The row for a head dimension (the larger of D and Dv); that of dim 0 where there is none.
constexpr WarpgroupPolicy warpgroup_policy(Direction direction, int dim) {
  for (const WarpgroupPolicy& row : kWarpgroupPolicies)
    if (row.direction == direction && dim <= row.dim) return row;
  return {direction, 0, 0, 0, 0, 0, 0};
}

// What a kernel is a template of. T: Float16 or Bfloat16. A tile lies in panels of 64 columns,
// whose rows of 128 bytes have the swizzle of that width.
template <class Element, int dim> struct WarpgroupConfig {
  using T = Element;
  static constexpr WarpgroupPolicy kRow = warpgroup_policy(Direction::kForward, dim);
  static constexpr int kDim = kRow.dim, kColumns = kDim, kWarpRows = 16;
  static constexpr int kTileQ = kRow.tile_q, kTileK = kRow.tile_k, kStages = kRow.stages;
  static constexpr bool kAnyFirst = false;  // tiles begin at multiples of their size
  static constexpr int kConsumers = kTileQ / 64, kThreads = 128 * (1 + kConsumers);
  static constexpr int kGive = kRow.give, kTake = kRow.take;
  static constexpr int kPanels = kDim / 64, kPanelOfKeys = kTileK * 128;
  static constexpr int kPanelOfQueries = kTileQ * 128;
  static constexpr int kQueryBytes = kPanels * kPanelOfQueries;
  static constexpr int kKeyBytes = kPanels * kPanelOfKeys;
  static constexpr int kBarriers = kQueryBytes + 2 * kStages * kKeyBytes;  // where they begin
  static constexpr int kSharedBytes = kBarriers + 8 * (1 + 4 * kStages);
};

}  // namespace tessera::device
