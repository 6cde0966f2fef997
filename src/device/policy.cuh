// Tile numbers as data: what a kernel is compiled for, by architecture, direction and head
// dimension. Planners read the same rows.
#pragma once
#include "device/params.cuh"
#include "device/types.cuh"

namespace tessera::device {

enum class Direction : int { kForward };

// How weights are multiplied with values.
enum class Weighing : int {
  kRounded,  // rounded to 16 bits once
  kBand,     // so too, by the kernel that takes what `takes_band` says, and is faster
  kExact,    // as a sum of numbers of 16 bits
  kFloat32,  // as they are, with values of float32
};

// Rounding moves a result by half of what it may be off. That is an average over rows, which few of
// them do not have; an out in float32 would show it; and a row may not change with the number of
// others where a call is batch invariant.
constexpr Weighing weighing_for(i64 rows, bool out_wide, bool batch_invariant) {
  return out_wide || batch_invariant || rows < 64 ? Weighing::kExact : Weighing::kRounded;
}

// A band, lengths and packed sequences, of rows that 16-byte copies can read. The rest changes
// scores pair by pair, or finds rows one by one.
constexpr bool takes_band(const ForwardParams& p) {
  const bool pairs = p.score.adjusts || p.score.mask.data || p.dropout.threshold != 0;
  const bool chunks = p.q_vectors && p.k_vectors && p.v_vectors;
  return chunks && !pairs && !p.pages.table.data && !p.state_lse.data && p.dim <= 256 &&
         p.value_dim <= 256;
}

struct PolicyRow {
  int arch;  // the oldest that runs it
  Direction direction;
  int dim;     // head dimensions up to this one
  int tile_q;  // query rows of a block
  int tile_k;  // keys of a step
  int stages;  // of keys and values in shared memory
  Weighing weighing = Weighing::kRounded;
  int sharing = 1;  // warps that share rows: each has its part of the value columns
  int blocks = 1;   // of 16 rows, that a warp has
};

inline constexpr PolicyRow kPolicies[] = {
    //                        dim tile_q tile_k stages    shared memory
    {80, Direction::kForward, 64, 64, 64, 2},                          // 40 KiB
    {80, Direction::kForward, 128, 64, 64, 2},                         // 80 KiB
    {80, Direction::kForward, 256, 64, 32, 2, Weighing::kRounded, 2},  // 96 KiB: all GPUs have 99
    // Two blocks of rows a warp halve what it reads of keys and values; measured on an H200 with
    // 32, 48, 64, 80, 96 and 128 keys a step.
    {80, Direction::kForward, 64, 128, 96, 2, Weighing::kBand, 1, 2},   // 64 KiB
    {80, Direction::kForward, 128, 128, 32, 2, Weighing::kBand, 1, 2},  // 64 KiB
    {80, Direction::kForward, 256, 64, 32, 2, Weighing::kBand},         // 96 KiB
    // Rows of 512 sums have no room in the registers of one warp, so two of them share the rows;
    // each computes S. 96 KiB; tile_k 32 takes 160, which sm_80 and sm_90 have, but not sm_86.
    {80, Direction::kForward, 512, 32, 16, 2, Weighing::kRounded, 2},
    // Parts of weights take registers: with the rows above ptxas spills for dim 128 and 256.
    {80, Direction::kForward, 64, 64, 64, 2, Weighing::kExact},        // 40 KiB
    {80, Direction::kForward, 128, 64, 32, 2, Weighing::kExact},       // 48 KiB
    {80, Direction::kForward, 256, 64, 32, 2, Weighing::kExact, 2},    // 96 KiB
    {80, Direction::kForward, 512, 32, 16, 2, Weighing::kExact, 4},    // 96 KiB
    {80, Direction::kForward, 64, 64, 32, 1, Weighing::kFloat32},      // 32 KiB
    {80, Direction::kForward, 128, 64, 32, 1, Weighing::kFloat32},     // 64 KiB
    {80, Direction::kForward, 256, 32, 32, 1, Weighing::kFloat32, 2},  // 96 KiB
    {80, Direction::kForward, 512, 16, 16, 1, Weighing::kFloat32, 4},  // 96 KiB
};

// The row for a head dimension (the larger of D and Dv); that of dim 0 where there is none.
constexpr PolicyRow policy_for(int arch, Direction direction, int dim,
                               Weighing weighing = Weighing::kRounded) {
  for (const PolicyRow& row : kPolicies)
    if (row.arch <= arch && row.direction == direction && row.weighing == weighing &&
        dim <= row.dim)
      return row;
  return {arch, direction, 0, 0, 0, 0, weighing};
}

// What a kernel is a template of. T: Float16 or Bfloat16, or float with Weighing::kFloat32.
template <class Element, int dim, Weighing weighing = Weighing::kRounded> struct Config {
  using T = Element;
  static constexpr Weighing kWeighing = weighing;
  static constexpr PolicyRow kRow = policy_for(80, Direction::kForward, dim, weighing);
  static constexpr int kDim = kRow.dim;
  static constexpr int kTileQ = kRow.tile_q, kTileK = kRow.tile_k, kStages = kRow.stages;
  static constexpr int kSharing = kRow.sharing, kColumns = kDim / kSharing;  // of values, in a warp
  static constexpr int kBlocks = kRow.blocks, kWarpRows = 16 * kBlocks;
  static constexpr int kThreads = kTileQ / kWarpRows * kSharing * 32;
  // Of an SM, for the launch bounds. Where they leave it open ptxas aims at three for dim 64, and
  // spills.
  static constexpr int kLeastBlocks = 1;
  static constexpr int kQueryBytes = kTileQ * kDim * int(sizeof(T)),
                       kKeyBytes = kTileK * kDim * int(sizeof(T));
  static constexpr int kSharedBytes = kQueryBytes + 2 * kStages * kKeyBytes;
};

}  // namespace tessera::device
