// Plain values that the kernels, their hosts and the emulator share. No instruction, no std header.
#pragma once

namespace tessera::device {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

struct Index3 {
  int x, y, z;
};

// A byte address in the shared window of a block. It cannot be dereferenced: each access is a word.
enum class Address : u32 {};

struct alignas(8) Vector2 {
  u32 x, y;
};
// 16 bytes, what one lane moves at once.
struct alignas(16) Vector4 {
  u32 x, y, z, w;
};

// The bits of a 16-bit element. If those of kExponent are all set it is an infinity or a NaN.
// kParts of them hold a float32 to 22 bits or better.
struct Float16 {
  static constexpr u32 kExponent = 0x7c00;
  static constexpr int kParts = 2;
  u16 bits;
};
struct Bfloat16 {
  static constexpr u32 kExponent = 0x7f80;
  static constexpr int kParts = 3;
  u16 bits;
};

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);
constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

}  // namespace tessera::device
