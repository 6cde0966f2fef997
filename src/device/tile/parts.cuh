// Weights as sums of 16-bit numbers, for results that show what one rounding would cost.
#pragma once
#include "device/tile/multiply.cuh"

namespace tessera::device {

template <class T, int columns> struct Parts {
  static constexpr int kCount = T::kParts;
  Weights<columns> part[kCount];
};

// P = part 0 + part 1 + ..., each the rest of those before it, rounded.
template <class T, int columns>
TS_DEVICE void round(Parts<T, columns>& to, const Sums<columns>& from) {
  Sums<columns> rest;
  TS_UNROLL for (int e = 0; e < rest.size; ++e) rest[e] = from[e];
  TS_UNROLL for (int n = 0; n < to.kCount; ++n) {
    round<T>(to.part[n], rest);
    TS_UNROLL for (int i = 0; i < to.part[n].size; ++i) {
      rest[2 * i] -= isa::to_float(T{u16(to.part[n][i])});
      rest[2 * i + 1] -= isa::to_float(T{u16(to.part[n][i] >> 16)});
    }
  }
}

// O += P B, each tile summed apart and added by an ordinary addition: a tensor core cuts its sums
// off where an addition rounds them, and always towards 0, so that long sums in it lose more than
// float32 has to (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores",
// 2021).
template <class T, class B>
TS_DEVICE void accumulate(Sums<B::kDim>& o, const Parts<T, B::kRows>& p, const B& b) {
  const int lane = isa::lane();
  TS_UNROLL for (int n = 0; n < B::kDim / 16; ++n) {
    Sums<16> sum;
    sum.clear();
    TS_UNROLL for (int k = 0; k < B::kRows / 16; ++k) {
      const Vector4 right =
          isa::load_matrices_transposed(b.at(16 * k + lane % 16, 2 * n + lane / 16));
      const u32 y[4] = {right.x, right.y, right.z, right.w};
      TS_UNROLL for (int x = p.kCount; x-- > 0;) {
        isa::mma<T>(sum.value, p.part[x].value + 4 * k, y);
        isa::mma<T>(sum.value + 4, p.part[x].value + 4 * k, y + 2);
      }
    }
    TS_UNROLL for (int e = 0; e < sum.size; ++e) o[8 * n + e] += sum[e];
  }
}

}  // namespace tessera::device
