#include "emulator/tensor_map.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tessera::emulator {
namespace {

// CUDA driver API, cuTensorMapEncodeTiled.
constexpr u64 kMostExtent = u64(1) << 32, kMostStride = u64(1) << 40;
constexpr u32 kMostBox = 256;

void require(bool holds, const std::string& sentence) {
  if (!holds) throw std::invalid_argument("tensor map: " + sentence);
}

std::string number(u64 x) { return std::to_string(x); }

void check_dimension(const TileMap& m, std::size_t d) {
  const std::string of = " of dimension " + number(d);
  require(m.extent[d] >= 1 && m.extent[d] <= kMostExtent,
          "the extent" + of + " is " + number(m.extent[d]) + "; it must be 1 to 2^32");
  require(m.box[d] >= 1 && m.box[d] <= kMostBox,
          "the tile has " + number(m.box[d]) + " elements" + of + "; it must have 1 to 256");
  if (d == 0) return;
  require(m.stride[d] % 16 == 0 && m.stride[d] < kMostStride,
          "the stride" + of + " is " + number(m.stride[d]) +
              " bytes; it must be a multiple of 16 below 2^40");
}

}  // namespace

TensorMap encode(const TileMap& m) {
  require(m.rank >= 1 && m.rank <= TileMap::kMostRank, "the rank must be 1 to 5");
  require(reinterpret_cast<std::uintptr_t>(m.base) % 16 == 0, "the base is not a multiple of 16");
  require(m.stride[0] == 2, "elements have two bytes and lie without gaps");
  for (int d = 0; d < m.rank; ++d) check_dimension(m, std::size_t(d));
  require(m.box[0] % 8 == 0, "a row of the tile must be a multiple of 16 bytes");
  require(m.swizzle == Swizzle::kNone || 2 * m.box[0] <= row_bytes(m.swizzle),
          "a row of the tile has " + number(2 * m.box[0]) + " bytes, wider than the swizzle");
  TileMap clean = m;
  for (auto d = std::size_t(m.rank); d < std::size_t(TileMap::kMostRank); ++d) {
    clean.extent[d] = clean.box[d] = 1;
    clean.stride[d] = 0;
  }
  TensorMap out{};
  static_assert(sizeof clean <= sizeof out);
  std::memcpy(&out, &clean, sizeof clean);
  return out;
}

TileMap decode(const TensorMap& map) {
  TileMap out;
  std::memcpy(static_cast<void*>(&out), &map, sizeof out);
  return out;
}

u32 swizzled(u32 address, Swizzle swizzle) {
  constexpr u32 kRows[] = {0, 7, 3, 1};
  return address ^ (address >> 7 & kRows[u32(swizzle)]) << 4;
}

u32 row_bytes(Swizzle swizzle) { return swizzle == Swizzle::kNone ? 16 : 256u >> u32(swizzle); }

u32 bytes_of(const TileMap& m) {
  u32 bytes = 2;
  for (int d = 0; d < m.rank; ++d) bytes *= m.box[std::size_t(d)];
  return bytes;
}

}  // namespace tessera::emulator
