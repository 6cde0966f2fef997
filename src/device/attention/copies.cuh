// How tiles of keys and values come to shared memory.
#pragma once
#include <isa/copy.cuh>

#include "device/attention/stream.cuh"
#include "device/tile/shared.cuh"

namespace tessera::device {

// Rows of 16-byte chunks at equal distances, counted from `first`; those outside [begin, end) are
// zeros and are not read.
template <class T> struct EvenRows {
  const T* first;
  i64 distance;
  int begin, end;
  int columns;

  // The rows from `from` on. A thread copies one chunk of every few rows. Copies of part of a chunk
  // are several instructions, so tiles of which nothing is missing have a loop of their own.
  template <int threads, class Tile> TS_DEVICE void copy(const Tile& tile, int from) const {
    constexpr int step = threads / Tile::kChunks;
    const int r = isa::thread() / Tile::kChunks, chunk = isa::thread() % Tile::kChunks;
    const T* source = first + r * distance + 8 * chunk + from * distance;
    const i64 stride = step * distance;
    if (begin <= from && from + Tile::kRows <= end && columns == Tile::kDim) {
      const Address corner = tile.at(r, chunk);
      TS_UNROLL for (int i = 0; i < Tile::kRows; i += step, source += stride)
          isa::copy_async(step % 8 == 0 ? tile.down(corner, i) : tile.at(r + i, chunk), source);
      return;
    }
    const int left = columns - 8 * chunk;
    const u32 bytes = left >= 8 ? 16 : left > 0 ? u32(2 * left) : 0;
    for (int i = 0; i < Tile::kRows; i += step, source += stride) {
      const bool exists = begin <= from + r + i && from + r + i < end;
      isa::copy_async(tile.at(r + i, chunk), source, exists ? bytes : 0);
    }
  }
};

// Keys and values of a block, those of `span` from the key `first` on. Dense or packed, in whole
// chunks:
template <class C, bool any = C::kAny> struct KeyStream {
  using T = typename C::T;
  EvenRows<T> k, v;

  TS_DEVICE KeyStream(const Head& h, Range span, i64 first)
      : k(even(keys_of<T>(h, span), first)), v(even(values_of<T>(h, span), first)) {}

  TS_DEVICE static EvenRows<T> even(const KeyRows<T>& rows, i64 first) {
    return {rows.row(first), rows.step_of_rows(), int(rows.seen.begin - first),
            int(rows.seen.end - first), rows.columns()};
  }
  template <class Tile> TS_DEVICE void start(const Tile& keys, const Tile& values, int from) const {
    k.template copy<C::kThreads>(keys, from);
    v.template copy<C::kThreads>(values, from);
  }
  TS_DEVICE static void start_queries(const SharedTile<C::kTileQ, C::kDim>& tile, const Head& h,
                                      i64 first) {
    const QueryRows<T> rows(h);
    const EvenRows<T> q{rows.row(first), rows.step_of_rows(), 0, int(h.s.queries - first),
                        rows.columns()};
    q.template copy<C::kThreads>(tile, 0);
  }
};

// Of any strides, and in pages:
template <class C> struct KeyStream<C, true> {
  using T = typename C::T;
  KeyRows<T> k, v;
  i64 first;

  TS_DEVICE KeyStream(const Head& h, Range span, i64 from)
      : k(keys_of<T>(h, span)), v(values_of<T>(h, span)), first(from) {}

  template <class Tile> TS_DEVICE void start(const Tile& keys, const Tile& values, int from) const {
    fill<C::kThreads>(keys, k, first + from);
    fill<C::kThreads>(values, v, first + from);
  }
  TS_DEVICE static void start_queries(const SharedTile<C::kTileQ, C::kDim>& tile, const Head& h,
                                      i64 first) {
    fill<C::kThreads>(tile, QueryRows<T>(h), first);
  }
};

}  // namespace tessera::device
