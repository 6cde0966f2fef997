// Tiles of float32 in shared memory and their products by ordinary multiply-adds, laid out as the
// sums of tensor cores are (multiply.cuh).
#pragma once
#include <isa/math.cuh>
#include <isa/memory.cuh>

#include "device/tile/multiply.cuh"

namespace tessera::device {

// [rows][dim], dim a multiple of 32. Chunks of 16 bytes are exchanged as in SharedTile.
template <int rows, int dim> struct WordTile {
  static constexpr int kRows = rows, kDim = dim, kChunks = dim / 4, kBytes = rows * dim * 4;
  Address base;

  TS_DEVICE Address at(int row, int chunk) const {
    return Address(u32(base) + u32(row * dim * 4 + (chunk ^ row % 8) * 16));
  }
};

struct Four {
  float x[4];
};
TS_DEVICE Four floats(Vector4 v) { return __builtin_bit_cast(Four, v); }

// Chains of multiply-adds of kChain terms are summed apart: rounding errors grow with the length of
// a chain (docs/numerics.md).
inline constexpr int kChain = 64;

// S = A B^T: rows `first` on of A, all of B.
template <class A, class B>
TS_DEVICE void multiply_words_transposed(Sums<B::kRows>& s, const A& a, int first, const B& b) {
  using S = Sums<B::kRows>;
  s.clear();
  for (int begin = 0; begin < A::kDim; begin += kChain) {
    S part;
    part.clear();
    for (int chunk = begin / 4; chunk < (begin + kChain) / 4; ++chunk) {
      Four x[2];
      TS_UNROLL for (int h = 0; h < 2; ++h) {
        x[h] = floats(isa::load(a.at(first + S::row(2 * h), chunk)));
      }
      TS_UNROLL for (int n = 0; n < S::size / 2; ++n) {
        const int e = n / 2 * 4 + n % 2;  // the column of this element in the first half
        const Four y = floats(isa::load(b.at(S::column(e), chunk)));
        TS_UNROLL for (int c = 0; c < 4; ++c) {
          part[e] = isa::fma(x[0].x[c], y.x[c], part[e]);
          part[e + 2] = isa::fma(x[1].x[c], y.x[c], part[e + 2]);
        }
      }
    }
    TS_UNROLL for (int e = 0; e < s.size; ++e) s[e] += part[e];
  }
}

// A lane's two rows of weights, all columns of them: its own and those of its neighbours.
template <int columns> struct WeightRows {
  isa::Registers<float, columns> half[2];

  TS_DEVICE explicit WeightRows(const Sums<columns>& p) {
    const int first = isa::lane() / 4 * 4;
    TS_UNROLL for (int j = 0; j < columns; ++j) {
      const int e = j / 8 * 4 + j % 2;
      TS_UNROLL for (int h = 0; h < 2; ++h) {
        half[h][j] = isa::shuffle(p[e + 2 * h], first + j % 8 / 2);
      }
    }
  }
};

// O += P B: the columns of B from `first` on, each tile summed apart.
template <int columns, class B>
TS_DEVICE void accumulate_words(Sums<columns>& o, const Sums<B::kRows>& p, const B& b, int first) {
  const WeightRows<B::kRows> weights(p);
  const int mine = isa::lane() % 4 * 2;
  TS_UNROLL for (int n = 0; n < columns / 8; ++n) {
    const int column = first + 8 * n + mine;
    float sum[4] = {0, 0, 0, 0};
    TS_UNROLL for (int j = 0; j < B::kRows; ++j) {
      const Vector2 y = isa::load_pair(Address(u32(b.at(j, column / 4)) + u32(column % 4 * 4)));
      const float low = __builtin_bit_cast(float, y.x), high = __builtin_bit_cast(float, y.y);
      TS_UNROLL for (int h = 0; h < 2; ++h) {
        sum[2 * h] = isa::fma(weights.half[h][j], low, sum[2 * h]);
        sum[2 * h + 1] = isa::fma(weights.half[h][j], high, sum[2 * h + 1]);
      }
    }
    TS_UNROLL for (int e = 0; e < 4; ++e) o[4 * n + e] += sum[e];
  }
}

}  // namespace tessera::device
