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
  kPairs,    // so too, by that of `takes_pairs`
  kExact,    // as a sum of numbers of 16 bits
  kFloat32,  // as they are, with values of float32
};

// Rounding moves a result by half of what it may be off. That is an average over rows, which few of
// them do not have; an out in float32 would show it; and a row may not change with the number of
// others where a call is batch invariant.
constexpr Weighing weighing_for(i64 rows, bool out_wide, bool batch_invariant) {
  return out_wide || batch_invariant || rows < 64 ? Weighing::kExact : Weighing::kRounded;
}

// Sequences, dense or packed, whose rows 16-byte copies can read; nothing but scores says what a
// pair is.
constexpr bool takes_tiles(const ForwardParams& p, int most) {
  const bool chunks = p.q_vectors && p.k_vectors && p.v_vectors;
  return chunks && !p.pages.table.data && !p.state_lse.data && p.dropout.threshold == 0 &&
         p.dim <= most && p.value_dim <= most;
}
// No more than a band and lengths.
constexpr bool takes_band(const ForwardParams& p) {
  return takes_tiles(p, 256) && !p.score.adjusts && !p.score.mask.data;
}
// And a mask or a bias, which 16-byte copies can read too. Its tiles begin where these do, so that
// a first key of the sequence's own would lie in the midst of one.
constexpr bool takes_pairs(const ForwardParams& p) {
  const ScoreParams& s = p.score;
  if (!takes_tiles(p, 128) || p.lengths.key_starts.data) return false;
  if (s.mask.data) return s.mask_vectors && !s.adjusts;
  return s.bias.data && s.bias_vectors && !s.alibi.data && s.softcap == 0;
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
    {80, Direction::kForward, 64, 128, 64, 2, Weighing::kBand, 1, 2},   // 48 KiB
    {80, Direction::kForward, 128, 128, 32, 2, Weighing::kBand, 1, 2},  // 64 KiB
    {80, Direction::kForward, 256, 64, 32, 2, Weighing::kBand},         // 96 KiB
    // Beside those of keys, stages of pairs. Two blocks fit into the 164 KiB of sm_80.
    {80, Direction::kForward, 64, 128, 64, 2, Weighing::kPairs, 1, 2},   // 81 KiB
    {80, Direction::kForward, 128, 128, 32, 2, Weighing::kPairs, 1, 2},  // 81 KiB
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
  // Whether tiles may begin at any key, and so do at the first one that is seen.
  static constexpr bool kAnyFirst = weighing == Weighing::kBand;
  // A tile of a bias, or of a mask; a word of each warp for each of a window of tiles to come, one
  // tile to a lane; and a word of each thread that it notes something in.
  static constexpr bool kPairs = weighing == Weighing::kPairs;
  static constexpr int kWindow = 32, kWordsOfWarps = kThreads / 32 * 4;
  static constexpr int kPairBytes = kPairs ? kTileQ * kTileK * 2 : 0;
  static constexpr int kShownBytes = kPairs ? kWindow * kWordsOfWarps : 0;
  static constexpr int kNoteBytes = kPairs || weighing == Weighing::kBand ? 4 * kThreads : 0;
  static constexpr int kSharedBytes =
      kQueryBytes + kStages * (2 * kKeyBytes + kPairBytes) + kShownBytes + kNoteBytes;
};

}  // namespace tessera::device
