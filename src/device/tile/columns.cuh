// Some columns of a tile, as a tile: warps that share rows take some each.
#pragma once
#include <isa/thread.cuh>
#include "device/types.cuh"

namespace tessera::device {

template <class Tile, int columns> struct Columns {
  static constexpr int kRows = Tile::kRows, kDim = columns;
  Tile tile;
  int first;  // a multiple of 64, which leaves the chunks of a row exchanged as they are

  TS_DEVICE Address at(int row, int chunk) const { return tile.at(row, chunk + first / 8); }
  TS_DEVICE static Address right(Address at, int chunks) { return Tile::right(at, chunks); }
  TS_DEVICE static Address down(Address at, int by) { return Tile::down(at, by); }
};

}  // namespace tessera::device
