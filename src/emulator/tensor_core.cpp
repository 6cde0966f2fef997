#include "emulator/tensor_core.hpp"

#include <bit>

#include "core/dtype.hpp"
#include "emulator/registers.hpp"

namespace tessera::emulator {
namespace {

struct Load {
  u32 row;
  u32 out[4];
};

struct Multiply {
  float* d;
  const u32* a;
  const u32* b;
};

float value_of(Operands type, u32 bits) {
  return type == Operands::kFloat16 ? core::float_from_float16(u16(bits))
                                    : core::float_from_bfloat16(u16(bits));
}

// Where a register of a lane lies (PTX ISA, "Matrix Fragments for mma.m16n8k16"): row and column of
// its first element.
struct Corner {
  int row, column;
};
Corner corner(int lane, int i) { return {lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8}; }

// One row of D at a time, so that the eight sums of a row fill vectors.
void multiply_tile(const float (&a)[16][16], const float (&b)[16][8], float (&d)[16][8]) {
  for (int row = 0; row < 16; ++row) {
    float sum[8];
    for (int n = 0; n < 8; ++n) sum[n] = d[row][n];
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 8; ++n) sum[n] += a[row][k] * b[k][n];
    for (int n = 0; n < 8; ++n) d[row][n] = sum[n];
  }
}

void check_registers(const Multiply& m, Where where) {
  for (int i = 0; i < 4; ++i) {
    use(m.d[i], where);
    use(m.a[i], where);
  }
  for (int i = 0; i < 2; ++i) use(m.b[i], where);
}

void multiply_all(Operands type, Multiply** lanes) {
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Multiply& m = *lanes[lane];
    for (int i = 0; i < 4; ++i) {
      const Corner at = corner(lane, i);
      a[at.row][at.column] = value_of(type, m.a[i] & 0xffff);
      a[at.row][at.column + 1] = value_of(type, m.a[i] >> 16);
      d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = m.d[i];
    }
    for (int i = 0; i < 2; ++i) {
      const int k = lane % 4 * 2 + i * 8;
      b[k][lane / 4] = value_of(type, m.b[i] & 0xffff);
      b[k + 1][lane / 4] = value_of(type, m.b[i] >> 16);
    }
  }
  multiply_tile(a, b, d);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) lanes[lane]->d[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

}  // namespace

device::Vector4 load_matrices(u32 row, bool transposed, Where where) {
  Load mine{row, {}};
  self->block->meet(where, mine, [&](Load** lanes) {
    u16 rows[32][8];
    for (std::size_t i = 0; i < 32; ++i)
      self->block->read_as(*self->warp->lanes[i], lanes[i]->row, rows[i], where);
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < 4; ++m) {
        const int one = lane / 4, two = lane % 4 * 2;
        const u32 low = transposed ? rows[8 * m + two][one] : rows[8 * m + one][two];
        const u32 high = transposed ? rows[8 * m + two + 1][one] : rows[8 * m + one][two + 1];
        lanes[lane]->out[m] = low | high << 16;
      }
  });
  return {mine.out[0], mine.out[1], mine.out[2], mine.out[3]};
}

void multiply(Operands type, float* d, const u32* a, const u32* b, Where where) {
  Multiply mine{d, a, b};
  check_registers(mine, where);
  self->block->meet(where, mine, [type](Multiply** lanes) { multiply_all(type, lanes); });
}

}  // namespace tessera::emulator
