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
