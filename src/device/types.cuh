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

// Which dimension of an operand is contiguous: the summed one, or the rows of A (columns of B).
enum class Major : int { kK = 0, kMN = 1 };

// How 16-byte chunks are exchanged, as descriptors of shared operands encode it.
enum class Swizzle : u32 { kNone = 0, k128B = 1, k64B = 2, k32B = 3 };

// Tensors of 16-bit elements and their tiles, innermost dimension first.
struct TileMap {
  static constexpr int kMostRank = 5;
  const void* base = nullptr;
  int rank = 0;
  u64 extent[kMostRank] = {};  // elements
  u64 stride[kMostRank] = {};  // bytes; that of the innermost is the size of an element
  u32 box[kMostRank] = {};     // elements of a tile
  Swizzle swizzle = Swizzle::kNone;
};

// What the copy engine reads instead: 128 bytes, written by the driver or by the emulator.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

// Where in a tensor a tile begins; negative or beyond the end: the elements there read as 0.
template <int rank> struct Coordinates {
  int at[rank];
};
template <class... Index> Coordinates(Index...) -> Coordinates<sizeof...(Index)>;

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
