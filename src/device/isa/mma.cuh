// The tensor core of sm_80, one warp at a time: 16 x 8 sums of 16 products each. PTX world.
//
// With g = lane / 4 and t = lane % 4 a lane holds
//   a[0] (g, 2t)  a[1] (g + 8, 2t)  a[2] (g, 2t + 8)  a[3] (g + 8, 2t + 8)  of A, and one column on
//   b[0] (2t, g)  b[1] (2t + 8, g)                                          of B, and one row on
//   d[0] (g, 2t)  d[1] (g, 2t + 1)  d[2] (g + 8, 2t)  d[3] (g + 8, 2t + 1)  of D
// (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type").
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// "ldmatrix.x4": four 8 x 8 matrices of 16-bit elements. Lane 8i + r gives the address of row r of
// matrix i; it receives the elements (g, 2t) and (g, 2t + 1) of each.
TS_DEVICE Vector4 load_matrices(Address row) {
  Vector4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(u32(row))
               : "memory");
  return v;
}
// "ldmatrix.x4.trans": it receives (2t, g) and (2t + 1, g).
TS_DEVICE Vector4 load_matrices_transposed(Address row) {
  Vector4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(u32(row))
               : "memory");
  return v;
}

// "mma.sync.aligned.m16n8k16.row.col.f32": D += A B, products of 16 bits, sums in float32.
template <class T> TS_DEVICE void mma(float* d, const u32* a, const u32* b);
template <> TS_DEVICE void mma<Float16>(float* d, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <> TS_DEVICE void mma<Bfloat16>(float* d, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace tessera::device::isa
