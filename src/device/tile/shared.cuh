// A tile of 16-bit elements in shared memory, and how a tile is filled from rows in global memory.
#pragma once
#include <isa/copy.cuh>
#include <isa/memory.cuh>

namespace tessera::device {

// [rows][dim], dim a multiple of 64. The 16-byte chunks of a row are exchanged by the row's
// number, so that eight rows of one column lie in different banks when ldmatrix reads them.
template <int rows, int dim> struct SharedTile {
  static constexpr int kRows = rows, kDim = dim, kChunks = dim / 8, kBytes = rows * dim * 2;
  Address base;

  TS_DEVICE Address at(int row, int chunk) const {
    return Address(u32(base) + u32(row * dim * 2 + (chunk ^ row % 8) * 16));
  }
  // From the place of chunk c to that of c + chunks, numbers that have no bit in common. Within
  // eight chunks exchanging is an exclusive or; eight of them are a distance, which an access adds
  // for nothing.
  TS_DEVICE static Address right(Address at, int chunks) {
    return Address((u32(at) ^ u32(chunks % 8 * 16)) + u32(chunks / 8 * 128));
  }
  // `by`: a multiple of 8.
  TS_DEVICE static Address down(Address at, int by) { return Address(u32(at) + u32(by * dim * 2)); }
};

// A chunk of a row that cannot be copied as 16 bytes; zeros beyond `columns`.
template <class T> TS_DEVICE Vector4 gather(const T* row, i64 step, int first, int columns) {
  u32 pair[4];
  TS_UNROLL for (int i = 0; i < 4; ++i) {
    const int c = first + 2 * i;
    const u32 low = c < columns ? isa::load(row + c * step).bits : 0;
    const u32 high = c + 1 < columns ? isa::load(row + (c + 1) * step).bits : 0;
    pair[i] = low | high << 16;
  }
  return {pair[0], pair[1], pair[2], pair[3]};
}

TS_DEVICE Vector4 gather(const float* row, i64 step, int first, int columns) {
  u32 word[4];
  TS_UNROLL for (int i = 0; i < 4; ++i) {
    const int c = first + i;
    word[i] = c < columns ? __builtin_bit_cast(u32, isa::load(row + c * step)) : 0;
  }
  return {word[0], word[1], word[2], word[3]};
}

// Starts to fill the tile with the rows from `first` on; rows that do not exist and columns beyond
// those of the tensor become zeros. The copies belong to the next group that is committed.
template <int threads, class Tile, class Rows>
TS_DEVICE void fill(const Tile& tile, const Rows& source, i64 first) {
  constexpr int elements = Tile::kDim / Tile::kChunks;  // of a chunk
  for (int i = isa::thread(); i < Tile::kRows * Tile::kChunks; i += threads) {
    const int r = i / Tile::kChunks, chunk = i % Tile::kChunks, column = elements * chunk;
    const int left = source.columns() - column;
    const bool exists = source.exists(first + r) && left > 0;
    if (!exists) {
      isa::store(tile.at(r, chunk), Vector4{0, 0, 0, 0});
      continue;
    }
    const auto* row = source.row(first + r);
    if (source.vectors())
      isa::copy_async(tile.at(r, chunk), row + column,
                      u32(left < elements ? left * (16 / elements) : 16));
    else
      isa::store(tile.at(r, chunk), gather(row, source.step(), column, source.columns()));
  }
}

// Two elements of 16 bits or one of 32, those that are not finite replaced by 0.
template <class T> TS_DEVICE u32 scrubbed(u32 pair) {
  if ((pair & T::kExponent) == T::kExponent) pair &= 0xffff0000;
  if ((pair >> 16 & T::kExponent) == T::kExponent) pair &= 0xffff;
  return pair;
}
template <> TS_DEVICE u32 scrubbed<float>(u32 word) {
  constexpr u32 exponent = 0x7f800000;
  return (word & exponent) == exponent ? 0 : word;
}

template <class T> TS_DEVICE Vector4 scrubbed(Vector4 v) {
  return {scrubbed<T>(v.x), scrubbed<T>(v.y), scrubbed<T>(v.z), scrubbed<T>(v.w)};
}

template <class T, int threads, class Tile> TS_DEVICE void scrub(const Tile& tile) {
  for (int i = isa::thread(); i < Tile::kRows * Tile::kChunks; i += threads) {
    const Address at = tile.at(i / Tile::kChunks, i % Tile::kChunks);
    isa::store(at, scrubbed<T>(isa::load(at)));
  }
}

}  // namespace tessera::device
