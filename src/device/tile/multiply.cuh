// Products of tiles by one warp: `blocks` times 16 rows of A, sums in registers. What is loaded of
// B serves all blocks: shared memory, which feeds the tensor core, is read so much less.
//
// Within a block element e of a lane's sums is row lane / 4 + 8 (e / 2 % 2) and column
// 8 (e / 4) + 2 (lane % 4) + e % 2. Eight rows of a block are a half; a lane has one row of each.
#pragma once
#include <isa/convert.cuh>
#include <isa/mma.cuh>

#include "device/tile/shared.cuh"

namespace tessera::device {

// 16 blocks x columns sums of float32.
template <int columns, int blocks = 1> struct Sums : isa::Registers<float, blocks * columns / 2> {
  static constexpr int kBlocks = blocks, kHalves = 2 * blocks, kOfBlock = columns / 2;

  TS_DEVICE void clear() { TS_UNROLL for (int e = 0; e < this->size; ++e)(*this)[e] = 0; }
  TS_DEVICE void scale(float x) { TS_UNROLL for (int e = 0; e < this->size; ++e)(*this)[e] *= x; }
  TS_DEVICE static int half(int e) { return e / kOfBlock * 2 + e / 2 % 2; }
  TS_DEVICE static bool leads(int e) { return e % kOfBlock == 0 || e % kOfBlock == 2; }  // its half
  TS_DEVICE static int row(int e) { return row_of_half(half(e)); }
  TS_DEVICE static int row_of_half(int h) { return isa::lane() / 4 + 8 * h; }
  TS_DEVICE static int element(int half, int chunk) {  // the first of two
    return half / 2 * kOfBlock + 4 * chunk + half % 2 * 2;
  }
  TS_DEVICE static int chunk(int e) { return e % kOfBlock / 4; }  // of eight columns
  TS_DEVICE static int lane_column() { return isa::lane() % 4 * 2; }
  TS_DEVICE static int column_in_lane(int e) { return 8 * chunk(e) + e % 2; }
  TS_DEVICE static int column(int e) { return lane_column() + column_in_lane(e); }
  TS_DEVICE float* tile(int block, int column) {
    return this->value + block * kOfBlock + column / 2;
  }
};

// The same rounded to 16 bits, two to a register: the operand A of the next product as it stands.
template <int columns, int blocks = 1> struct Weights : isa::Registers<u32, blocks * columns / 4> {
  TS_DEVICE const u32* tile(int block, int column) const {
    return this->value + block * columns / 4 + column / 4;
  }
};

template <class T, int columns, int blocks>
TS_DEVICE void round(Weights<columns, blocks>& to, const Sums<columns, blocks>& from) {
  TS_UNROLL for (int i = 0; i < to.size; ++i) to[i] = isa::pack<T>(from[2 * i], from[2 * i + 1]);
}

TS_DEVICE void unpack(u32 (&to)[4], Vector4 v) {
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}

// Rounds the sums into rows `first` on of a tile, for other lanes to read after sync_warp.
template <class T, int blocks, class Tile>
TS_DEVICE void put(const Tile& tile, int first, const Sums<Tile::kDim, blocks>& sums) {
  isa::sync_warp();
  const Address corner = tile.at(first + isa::lane() / 4, 0);
  TS_UNROLL for (int e = 0; e < sums.size; e += 2) {
    const Address row = tile.down(tile.right(corner, sums.chunk(e)), 8 * sums.half(e));
    isa::store(Address(u32(row) + u32(isa::lane() % 4 * 4)), isa::pack<T>(sums[e], sums[e + 1]));
  }
}

// S = A B^T: rows `first` (a multiple of 8) on of A, all of B; both lie with the summed dimension
// contiguous.
template <class T, int blocks, class A, class B>
TS_DEVICE void multiply_transposed(Sums<B::kRows, blocks>& s, const A& a, int first, const B& b) {
  const int lane = isa::lane();
  const Address left = a.down(a.at(lane % 16, lane / 16), first);
  const Address right = b.at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  s.clear();
  TS_UNROLL for (int d = 0; d < A::kDim / 8; d += 2) {
    u32 x[blocks][4], y[4];
    TS_UNROLL for (int m = 0; m < blocks; ++m)
        unpack(x[m], isa::load_matrices(a.down(a.right(left, d), 16 * m)));
    TS_UNROLL for (int n = 0; n < B::kRows; n += 16) {
      unpack(y, isa::load_matrices(b.down(b.right(right, d), n)));
      TS_UNROLL for (int m = 0; m < blocks; ++m) {
        isa::mma<T>(s.tile(m, n), x[m], y);
        isa::mma<T>(s.tile(m, n + 8), x[m], y + 2);
      }
    }
  }
}

// O += P B: B lies with its columns contiguous, so ldmatrix transposes it.
template <class T, int blocks, class B>
TS_DEVICE void accumulate(Sums<B::kDim, blocks>& o, const Weights<B::kRows, blocks>& p,
                          const B& b) {
  const int lane = isa::lane();
  const Address corner = b.at(lane % 16, lane / 16);
  TS_UNROLL for (int k = 0; k < B::kRows; k += 16) {
    TS_UNROLL for (int n = 0; n < B::kDim; n += 16) {
      u32 y[4];
      unpack(y, isa::load_matrices_transposed(b.down(b.right(corner, n / 8), k)));
      TS_UNROLL for (int m = 0; m < blocks; ++m) {
        isa::mma<T>(o.tile(m, n), p.tile(m, k), y);
        isa::mma<T>(o.tile(m, n + 8), p.tile(m, k), y + 2);
      }
    }
  }
}

}  // namespace tessera::device
