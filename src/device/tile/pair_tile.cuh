// What is said of pairs, as a tile in shared memory: a byte of a mask or 16 bits of a bias each.
#pragma once
#include <isa/thread.cuh>

#include "device/types.cuh"

namespace tessera::device {

// [rows][bytes], bytes 32, 64 or 128. The 16-byte chunks of a row are exchanged by the row's number
// such that one chunk of eight rows, and a word of eight rows and two neighbours, lie in different
// banks.
template <int rows, int bytes> struct PairTile {
  static constexpr int kRows = rows, kChunks = bytes / 16;
  Address base;

  TS_DEVICE Address at(int row, int chunk) const {
    const u32 exchanged = u32(chunk) ^ u32(row) * kChunks / 8 % kChunks;
    return Address(u32(base) + u32(row * bytes) + exchanged * 16);
  }
  // As those of SharedTile; `by` is a multiple of 8.
  TS_DEVICE static Address right(Address at, int chunks) {
    return Address(u32(at) ^ u32(16 * chunks));
  }
  TS_DEVICE static Address down(Address at, int by) { return Address(u32(at) + u32(by * bytes)); }
};

}  // namespace tessera::device
