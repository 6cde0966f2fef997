// What a warp of a warpgroup holds of a product: 16 rows of it, sums in registers.
//
// Element e of a lane's sums is row lane / 4 + 8 (e / 2 % 2) and column
// 8 (e / 4) + 2 (lane % 4) + e % 2.
#pragma once
#include <isa/convert.cuh>
#include <isa/thread.cuh>

namespace tessera::device {

template <int columns> struct WarpgroupSums : isa::Registers<float, columns / 2> {
  TS_DEVICE void clear() { TS_UNROLL for (int e = 0; e < columns / 2; ++e)(*this)[e] = 0; }
  TS_DEVICE static int half(int e) { return e / 2 % 2; }
  TS_DEVICE static int row(int e) { return isa::lane() / 4 + 8 * half(e); }
  TS_DEVICE static int column(int e) { return e / 4 * 8 + isa::lane() % 4 * 2 + e % 2; }
};

// The same rounded to 16 bits, two to a register: the operand A of the next product as it stands.
template <class T, int columns> struct WarpgroupWeights : isa::Registers<u32, columns / 4> {
  TS_DEVICE void round(const WarpgroupSums<columns>& from) {
    TS_UNROLL for (int i = 0; i < columns / 4; ++i)(*this)[i] =
        isa::pack<T>(from[2 * i], from[2 * i + 1]);
  }
};

}  // namespace tessera::device
