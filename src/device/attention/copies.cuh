// How tiles of keys and values come to shared memory where their rows lie at equal distances.
#pragma once
#include <isa/copy.cuh>

#include "device/attention/stream.cuh"
#include "device/tile/shared.cuh"

namespace tessera::device {

// Rows of 16-byte chunks at equal distances, read a tile at a time. A thread copies one chunk of
// every few rows.
template <class T, int threads, class Tile> struct EvenRows {
  static constexpr int kStep = threads / Tile::kChunks;  // from one row of a thread to its next

  const T* from;  // the thread's first chunk of the tile
  i64 distance;   // of two rows
  int columns;

  // `row` is the first row of the first tile.
  TS_DEVICE EvenRows(const T* row, i64 row_distance, int width)
      : from(row + thread_row() * row_distance + 8 * chunk()),
        distance(row_distance),
        columns(width) {}

  // Starts the copies of a tile, of which the first `end` rows exist; the others become zeros.
  // Copies of part of a chunk are several instructions each, so tiles of which nothing is missing
  // have a loop of their own.
  TS_DEVICE void start(const Tile& tile, int end) const {
    if (Tile::kRows <= end && columns == Tile::kDim)
      start_whole(tile);
    else
      start_part(tile, end);
  }
  TS_DEVICE void start_whole(const Tile& tile) const {
    const T* row = from;
    TS_UNROLL for (int r = 0; r < Tile::kRows; r += kStep, row += kStep * distance)
        isa::copy_async(place(tile, r), row);
  }
  TS_DEVICE void start_part(const Tile& tile, int end) const {
    const int left = columns - 8 * chunk();
    for (int r = 0; r < Tile::kRows; r += kStep) {
      const bool exists = r + thread_row() < end && left > 0;
      const int bytes = exists ? (left < 8 ? 2 * left : 16) : 0;
      isa::copy_async(place(tile, r), from + r * distance, u32(bytes));
    }
  }
  // The same tile now, with 0 in place of what is not finite.
  TS_DEVICE void put_scrubbed(const Tile& tile, int end) const {
    const int first = 8 * chunk();
    TS_ROLL for (int r = 0; r < Tile::kRows; r += kStep) {
      const int width = r + thread_row() < end ? columns : 0;
      const Vector4 some = gather(from + r * distance - first, 1, first, width);
      isa::store(place(tile, r), scrubbed<T>(some));
    }
  }
  TS_DEVICE void advance(int rows) { from += rows * distance; }

 private:
  TS_DEVICE static int thread_row() { return int(u32(isa::thread()) / Tile::kChunks); }
  TS_DEVICE static int chunk() { return int(u32(isa::thread()) % Tile::kChunks); }
  TS_DEVICE static Address place(const Tile& tile, int row) {
    if (kStep % 8 == 0) return Tile::down(tile.at(thread_row(), chunk()), row);
    return tile.at(row + thread_row(), chunk());
  }
};

// Keys and values of a block, those of `span` from the key `first` on.
template <class C> struct KeyStream {
  using T = typename C::T;
  template <class Tile> using Even = EvenRows<T, C::kThreads, Tile>;
  using Queries = SharedTile<C::kTileQ, C::kDim>;
  using Keys = SharedTile<C::kTileK, C::kDim>;
  static constexpr int kNever = 1 << 30;
  Even<Keys> k, v;
  bool scrubbing;  // values that are not finite become 0
  int whole_from;  // tiles of so many keys come by copies of whole chunks

  TS_DEVICE KeyStream(const Head& h, Range span, i64 first, bool scrub)
      : k(even(keys_of<T>(h, span), first)),
        v(even(values_of<T>(h, span), first)),
        scrubbing(scrub),
        whole_from(isa::again(all_whole() ? C::kTileK : kNever)) {}

  TS_DEVICE bool all_whole() const {
    return k.columns == C::kDim && v.columns == C::kDim && !scrubbing;
  }
  TS_DEVICE static Even<Keys> even(const KeyRows<T>& rows, i64 first) {
    return {rows.even_row(first), rows.step_of_rows(), rows.columns()};
  }
  // A tile of which the first `end` keys exist.
  TS_DEVICE void start(const Keys& keys, const Keys& values, int end) const {
    if (end >= whole_from) {
      k.start_whole(keys);
      v.start_whole(values);
      return;
    }
    k.start_part(keys, end);
    if (scrubbing)
      v.put_scrubbed(values, end);
    else
      v.start_part(values, end);
  }
  TS_DEVICE void advance(int keys) {
    k.advance(keys);
    v.advance(keys);
  }
  TS_DEVICE static void start_queries(const Queries& tile, const Head& h, i64 first) {
    const QueryRows<T> rows(h);
    const int end = int(smaller(h.s.queries - first, C::kTileQ));
    Even<Queries>(rows.row(first), rows.step_of_rows(), rows.columns()).start(tile, end);
  }
};

}  // namespace tessera::device
