// A mask or a bias on its way to the scores: tiles come through shared memory beside the keys, in
// copies of 16 bytes, and tiles of keys that a mask hides from all rows of a block are left out.
#pragma once
#include <isa/copy.cuh>
#include <isa/memory.cuh>

#include "device/attention/score.cuh"
#include "device/policy.cuh"
#include "device/tile/multiply.cuh"
#include "device/tile/pair_tile.cuh"

namespace tessera::device {

// Of a kernel whose scores are what the band leaves of them.
template <class C, Weighing = C::kWeighing> struct PairStream {
  TS_DEVICE PairStream(const Head&, Address, Range, Range, i64) {}
  TS_DEVICE void start(Address, int) const {}
  TS_DEVICE int shown_from(int key) const { return key; }
  template <class S> TS_DEVICE void apply(S&, Address, bool) const {}
};

template <class C> struct PairStream<C, Weighing::kPairs> {
  using T = typename C::T;
  template <int size> using Tile = PairTile<C::kTileQ, C::kTileK * size>;
  static_assert(C::kWordsOfWarps == sizeof(Vector4));

  const ForwardParams& p;
  Address shown;   // [kWindow][warps] words, 0 if the rows of the warp see nothing of the tile
  const u8* from;  // the thread's first chunk of the tile of step 0
  int rows, keys;  // that exist, from the first row of the block and from the first key of step 0

  // `tile` are rows of the sequence, `span` the keys that some of them see.
  TS_DEVICE PairStream(const Head& h, Address flags, Range tile, Range span, i64 first_key)
      : p(h.p), shown(flags), rows(int(tile.end - tile.begin)), keys(near(span.end - first_key)) {
    from = masked() ? chunk_of<1>(h, p.score.mask, tile.begin, first_key)
                    : chunk_of<2>(h, p.score.bias, tile.begin, first_key);
  }

  // Starts the copies of a tile; what does not exist becomes zeros.
  TS_DEVICE void start(Address tile, int key) const {
    if (masked())
      copy<1>({tile}, key);
    else
      copy<2>({tile}, key);
  }

  // The first tile from `key` on, a multiple of its size, that some row of the block sees.
  TS_DEVICE int shown_from(int key) const {
    if (!masked()) return key;
    for (; key < keys; key += C::kTileK) {
      const int tile = key / C::kTileK;
      if (tile % C::kWindow == 0) look(tile);
      const Vector4 some = isa::load(flags_of(tile));
      if (some.x | some.y | some.z | some.w) break;
    }
    return key;
  }

  // `exact`: a bias of -inf hides also a score that is not finite.
  template <class S> TS_DEVICE void apply(S& s, Address tile, bool exact) const {
    if (masked())
      hide(s, {tile});
    else if (exact)
      add<true>(s, {tile});
    else
      add<false>(s, {tile});
  }

 private:
  TS_DEVICE bool masked() const { return p.score.mask.data != nullptr; }
  template <int size> TS_DEVICE static int thread_row() {
    return int(u32(isa::thread()) / Tile<size>::kChunks);
  }
  template <int size> TS_DEVICE static int chunk() {
    return int(u32(isa::thread()) % Tile<size>::kChunks);
  }
  // From one row of memory to the next, in bytes.
  template <int size> TS_DEVICE i64 distance() const {
    return size * (size == 1 ? p.score.mask : p.score.bias).stride[2];
  }
  template <int size>
  TS_DEVICE static const u8* chunk_of(const Head& h, const View& v, i64 row, i64 key) {
    return static_cast<const u8*>(v.data) + size * h.pair(v, row + thread_row<size>(), key) +
           16 * chunk<size>();
  }

  template <int size> TS_DEVICE void copy(const Tile<size>& tile, int key) const {
    constexpr int step = C::kThreads / Tile<size>::kChunks;
    const int left = size * (keys - key) - 16 * chunk<size>();
    const bool whole = rows == C::kTileQ && keys - key >= C::kTileK;
    const u8* row = from + size * key;
    const Address corner = tile.at(thread_row<size>(), chunk<size>());
    TS_UNROLL for (int r = 0; r < C::kTileQ; r += step, row += step * distance<size>()) {
      const Address to = tile.down(corner, r);
      if (whole) {
        isa::copy_async(to, row);
      } else {
        const bool exists = r + thread_row<size>() < rows && left > 0;
        isa::copy_async(to, row, u32(exists ? (left < 16 ? left : 16) : 0));
      }
    }
  }

  // A lane's element and its neighbour are two bytes of a word.
  template <class S> TS_DEVICE static void hide(S& s, const Tile<1>& tile) {
    const int lane = isa::lane();
    const u32 even = lane % 2 ? 0xff0000 : 0xff, odd = even << 8;
    const Address row = tile.at(isa::warp() * C::kWarpRows + lane / 4, 0);
    const auto corner = Address(u32(row) + u32(lane % 4 / 2 * 4));
    TS_UNROLL for (int e = 0; e < s.size; e += 2) {
      const Address chunk = tile.down(tile.right(corner, s.chunk(e) / 2), 8 * s.half(e));
      const u32 word = isa::load_word(Address(u32(chunk) + u32(s.chunk(e) % 2 * 8)));
      if (!(word & even)) s[e] = -kInfinity;
      if (!(word & odd)) s[e + 1] = -kInfinity;
    }
  }

  // S = factor S + bias. Eight rows of a chunk are a matrix of ldmatrix, which deals its elements
  // out as the products are.
  template <bool exact, class S> TS_DEVICE void add(S& s, const Tile<2>& tile) const {
    static_assert(S::kHalves == 4);
    const Address corner = tile.at(isa::warp() * C::kWarpRows + isa::lane(), 0);
    TS_UNROLL for (int n = 0; n < C::kTileK / 8; ++n) {
      u32 pair[4];
      unpack(pair, isa::load_matrices(tile.right(corner, n)));
      TS_UNROLL for (int h = 0; h < 4; ++h) {
        const int e = s.element(h, n);
        s[e] = sum<exact>(s[e], isa::to_float(T{u16(pair[h])}));
        s[e + 1] = sum<exact>(s[e + 1], isa::to_float(T{u16(pair[h] >> 16)}));
      }
    }
  }
  template <bool exact> TS_DEVICE float sum(float s, float bias) const {
    if (exact && bias == -kInfinity) return bias;
    return isa::fma(s, p.score.factor, bias);
  }

  TS_DEVICE Address flags_of(int tile) const {
    return Address(u32(shown) + u32(tile % C::kWindow * C::kWordsOfWarps));
  }
  // What the rows of the warp see of the window of tiles from `tile` on. The first barrier is for
  // warps that still read what was said of the one before.
  TS_DEVICE void look(int tile) const {
    const int key = (tile + isa::lane()) * C::kTileK, first = isa::warp() * C::kWarpRows;
    u32 some = key + C::kTileK > keys;  // a tile of which a part exists counts as seen
    const u8* row = from - 16 * chunk<1>() + key + (first - thread_row<1>()) * distance<1>();
    // A few rows between votes: a dense mask answers in the first.
    constexpr int kAtOnce = 4;
    for (int r = 0; r < C::kWarpRows && isa::any(some == 0); r += kAtOnce) {
      TS_UNROLL for (int i = 0; i < kAtOnce; ++i, row += distance<1>()) {
        if (some == 0 && first + r + i < rows) some = any_of(row);
      }
    }
    isa::sync_block();
    isa::store(Address(u32(flags_of(tile + isa::lane())) + u32(4 * isa::warp())), some);
    isa::sync_block();
  }
  TS_DEVICE static u32 any_of(const u8* row) {
    u32 some = 0;
    TS_UNROLL for (int c = 0; c < C::kTileK / 16; ++c) {
      const Vector4 v = isa::load(reinterpret_cast<const Vector4*>(row) + c);
      some |= v.x | v.y | v.z | v.w;
    }
    return some;
  }
};

}  // namespace tessera::device
