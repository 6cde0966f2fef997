// Where the descriptor of a shared operand of wgmma says that its elements lie.
#pragma once
#include "emulator/tensor_map.hpp"

namespace tessera::emulator {

// PTX ISA, "Strides" and "Canonical Layouts" of wgmma, elements of 16 bits. A chunk is 16 bytes:
// eight k of one row (K-major), or eight rows of one k (MN-major).
struct SharedOperand {
  u32 start, leading, stride, width;  // width: bytes of a row of the swizzle
  Swizzle swizzle;

  explicit SharedOperand(u64 d)
      : start(u32(d & 0x3fff) << 4),
        leading(u32(d >> 16 & 0x3fff) << 4),
        stride(u32(d >> 32 & 0x3fff) << 4),
        width(row_bytes(Swizzle(d >> 62))),
        swizzle(Swizzle(d >> 62)) {}

  u32 k_major(u32 row, u32 k) const {
    const u32 along = swizzle == Swizzle::kNone ? k / 8 * leading : k * 2;
    return at(row % 8 * width + row / 8 * stride + along);
  }
  u32 mn_major(u32 row, u32 k) const {
    const u32 lines = k % 8 * width;
    if (swizzle == Swizzle::kNone) return at(row / 8 * stride + lines + k / 8 * leading);
    const u32 block = width / 2;
    return at(row % block * 2 + row / block * leading + lines + k / 8 * stride);
  }
  u32 at(u32 offset) const { return swizzled((start + offset) & 0x3ffff, swizzle); }
};

// Calls visit(address, row, k) for each chunk of 16 k and `rows` rows.
template <class Visit>
void for_each_chunk(u64 descriptor, device::Major major, int rows, Visit visit) {
  const SharedOperand o(descriptor);
  if (major == device::Major::kK) {
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < 16; k += 8) visit(o.k_major(u32(row), u32(k)), row, k);
  } else {
    for (int k = 0; k < 16; ++k)
      for (int row = 0; row < rows; row += 8) visit(o.mn_major(u32(row), u32(k)), row, k);
  }
}

}  // namespace tessera::emulator
