// Products of tiles by one warp: 16 rows of A, sums in registers.
//
// Element e of a lane's sums is row lane / 4 + 8 (e / 2 % 2) and column
// 8 (e / 4) + 2 (lane % 4) + e % 2.
#pragma once
#include <isa/convert.cuh>
#include <isa/mma.cuh>

#include "device/tile/shared.cuh"

namespace tessera::device {

// 16 x columns sums of float32.
template <int columns> struct Sums : isa::Registers<float, columns / 2> {
  TS_DEVICE void clear() { TS_UNROLL for (int e = 0; e < columns / 2; ++e)(*this)[e] = 0; }
  TS_DEVICE void scale(float x) { TS_UNROLL for (int e = 0; e < columns / 2; ++e)(*this)[e] *= x; }
  TS_DEVICE static int half(int e) { return e / 2 % 2; }
  TS_DEVICE static int row(int e) { return isa::lane() / 4 + 8 * half(e); }
  TS_DEVICE static int column(int e) { return e / 4 * 8 + isa::lane() % 4 * 2 + e % 2; }
};

// The same rounded to 16 bits, two to a register: the operand A of the next product as it stands.
template <int columns> using Weights = isa::Registers<u32, columns / 4>;

template <class T, int columns>
TS_DEVICE void round(Weights<columns>& to, const Sums<columns>& from) {
  TS_UNROLL for (int i = 0; i < to.size; ++i) to[i] = isa::pack<T>(from[2 * i], from[2 * i + 1]);
}

// S = A B^T: rows `first` on of A, all of B; both lie with the summed dimension contiguous.
template <class T, class A, class B>
TS_DEVICE void multiply_transposed(Sums<B::kRows>& s, const A& a, int first, const B& b) {
  const int lane = isa::lane();
  s.clear();
  TS_UNROLL for (int d = 0; d < A::kDim / 16; ++d) {
    const Vector4 left = isa::load_matrices(a.at(first + lane % 16, 2 * d + lane / 16));
    const u32 x[4] = {left.x, left.y, left.z, left.w};
    TS_UNROLL for (int n = 0; n < B::kRows / 16; ++n) {
      const int row = 16 * n + lane / 16 * 8 + lane % 8;
      const Vector4 right = isa::load_matrices(b.at(row, 2 * d + lane / 8 % 2));
      const u32 y[4] = {right.x, right.y, right.z, right.w};
      isa::mma<T>(s.value + 8 * n, x, y);
      isa::mma<T>(s.value + 8 * n + 4, x, y + 2);
    }
  }
}

// O += P B: B lies with its columns contiguous, so ldmatrix transposes it.
template <class T, class B>
TS_DEVICE void accumulate(Sums<B::kDim>& o, const Weights<B::kRows>& p, const B& b) {
  const int lane = isa::lane();
  TS_UNROLL for (int k = 0; k < B::kRows / 16; ++k) {
    TS_UNROLL for (int n = 0; n < B::kDim / 16; ++n) {
      const Vector4 right =
          isa::load_matrices_transposed(b.at(16 * k + lane % 16, 2 * n + lane / 16));
      const u32 y[4] = {right.x, right.y, right.z, right.w};
      isa::mma<T>(o.value + 8 * n, p.value + 4 * k, y);
      isa::mma<T>(o.value + 8 * n + 4, p.value + 4 * k, y + 2);
    }
  }
}

}  // namespace tessera::device
