// Which part of a call a block computes.
#pragma once
#include <isa/thread.cuh>

#include "device/params.cuh"

namespace tessera::device {

// x is the tile of queries, y the head, z the sequence: the numbers of the block. A grid has little
// room along y and z; where heads or sequences need more, rows of blocks are counted through, and
// those behind the last sequence have nothing to do.
TS_DEVICE Index3 place_of(const ForwardParams& p, Index3 block) {
  const int row = isa::grid().y;
  if (row == p.heads) return block;
  const u32 n = u32(block.z) * u32(row) + u32(block.y), heads = u32(p.heads), sequence = n / heads;
  return {block.x, int(n - sequence * heads), int(sequence)};
}
TS_DEVICE Index3 place_of_block(const ForwardParams& p) { return place_of(p, isa::block()); }

}  // namespace tessera::device
