// Rows of the output and of lse.
#pragma once
#include <isa/convert.cuh>
#include <isa/memory.cuh>

#include "device/attention/sequence.cuh"

namespace tessera::device {

// One head of one sequence; i is counted within it.
template <class T> struct Output {
  const ForwardParams& p;
  const Sequence& s;
  int head;

  TS_DEVICE i64 place(i64 i, int column) const {
    const i64* stride = p.out.stride;
    return s.q_batch * stride[0] + (s.q_begin + i) * stride[1] + head * stride[2] +
           column * stride[3];
  }
  TS_DEVICE void store(i64 i, int column, float x) const {
    if constexpr (sizeof(T) == 4)
      return isa::store(static_cast<T*>(p.out.data) + place(i, column), x);
    else
      store_16_bits(i, column, x);
  }
  TS_DEVICE void store_16_bits(i64 i, int column, float x) const {
    if (p.out_wide) return isa::store(static_cast<float*>(p.out.data) + place(i, column), x);
    isa::store(static_cast<T*>(p.out.data) + place(i, column), T{u16(isa::pack<T>(x, 0.f))});
  }
  // Columns `column` (even) and the one after it, as far as they exist.
  TS_DEVICE void store_pair(i64 i, int column, float x, float y) const {
    if constexpr (sizeof(T) == 2)
      if (p.out_pairs && column + 1 < p.value_dim) {
        u32* to = static_cast<u32*>(p.out.data) + place(i, column) / 2;
        return isa::store(to, isa::pack<T>(x, y));
      }
    if (column < p.value_dim) store(i, column, x);
    if (column + 1 < p.value_dim) store(i, column + 1, y);
  }
  // Whether row i is stored: it exists, and the bit `row` of `except` is not set.
  TS_DEVICE bool stores(i64 i, int row, u32 except) const {
    return i < s.queries && !(except >> row & 1);
  }
  // Rows `row` on of a tile, by one warp, are the rows from i on. What it stores together is close
  // together in memory.
  template <int rows, class Tile>
  TS_DEVICE void store(const Tile& tile, int row, i64 i, u32 except) const {
    constexpr int together = 32 / Tile::kChunks;
    const int chunk = isa::lane() % Tile::kChunks, columns = p.value_dim - 8 * chunk;
    const int first = isa::lane() / Tile::kChunks;
    T* to = static_cast<T*>(p.out.data) + place(i + first, 8 * chunk);
    const i64 stride = together * p.out.stride[1];
    if (p.out_vectors && p.value_dim == Tile::kDim && i + rows <= s.queries && !except) {
      TS_UNROLL for (int r = 0; r < rows; r += together, to += stride)
          isa::store(reinterpret_cast<Vector4*>(to), isa::load(tile.at(row + r + first, chunk)));
      return;
    }
    for (int r = first; r < rows; r += together, to += stride) {
      if (columns <= 0 || !stores(i + r, r, except)) continue;
      const Address from = tile.at(row + r, chunk);
      if (p.out_vectors)
        isa::store(reinterpret_cast<Vector4*>(to), isa::load(from));
      else
        scatter(to, from, columns);
    }
  }
  // Eight elements, of which `columns` exist.
  TS_DEVICE void scatter(T* to, Address from, int columns) const {
    for (int c = 0; c < 8 && c < columns; ++c) {
      const u32 pair = isa::load_word(Address(u32(from) + u32(c / 2 * 4)));
      isa::store(to + c * p.out.stride[3], T{u16(c % 2 ? pair >> 16 : pair)});
    }
  }
  TS_DEVICE void store_lse(i64 i, float x) const {
    if (!p.lse.data) return;
    const i64* stride = p.lse.stride;
    const i64 at = s.q_batch * stride[0] + head * stride[1] + (s.q_begin + i) * stride[2];
    isa::store(static_cast<float*>(p.lse.data) + at, x);
  }
  // What rows without keys say, by all threads of the block.
  TS_DEVICE void clear(Range rows, int threads) const {
    for (i64 i = rows.begin; i < rows.end; ++i) {
      for (int c = isa::thread(); c < p.value_dim; c += threads) store(i, c, 0);
      if (isa::thread() == 0) store_lse(i, -kInfinity);
    }
  }
};

}  // namespace tessera::device
