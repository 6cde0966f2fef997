// Tensor maps of the emulator, and the tiles that they describe.
#pragma once
#include <array>
#include <cstddef>

#include "device/types.cuh"
#include "emulator/clock.hpp"

namespace tessera::emulator {

using device::Swizzle;
using device::TensorMap;
using device::TileMap;

// Throws std::invalid_argument, with a sentence, for what the driver would refuse.
TensorMap encode(const TileMap& map);
TileMap decode(const TensorMap& map);

// PTX ISA, "Swizzling modes": bits 4 to 6 of an address are exchanged by bits 7 to 9.
u32 swizzled(u32 address, Swizzle swizzle);
// Bytes of a row of the repeating pattern; 16 without one.
u32 row_bytes(Swizzle swizzle);

using Corner = std::array<int, TileMap::kMostRank>;

u32 bytes_of(const TileMap& map);

// 16 bytes of a tile: eight elements, of which those from `first` to `last` - 1 exist.
struct Chunk {
  u32 offset = 0;           // in the tile, before the swizzle
  std::byte* at = nullptr;  // in the tensor, of element 0
  int first = 0, last = 0;
};

template <class Visit> void for_each_chunk(const TileMap& m, const Corner& corner, Visit visit) {
  std::array<u32, TileMap::kMostRank> i{};  // within the tile
  for (u32 offset = 0; offset < bytes_of(m); offset += 16) {
    i64 place = 0;
    bool inside = true;
    for (int d = m.rank - 1; d >= 0; --d) {
      const auto k = std::size_t(d);
      const i64 at = i64(corner[k]) + i[k];
      if (d > 0) inside = inside && at >= 0 && u64(at) < m.extent[k];
      place += at * i64(m.stride[k]);
    }
    const i64 x = i64(corner[0]) + i[0], width = i64(m.extent[0]);
    const int first = x < 0 ? int(x < -8 ? 8 : -x) : 0;
    const int last = x >= width ? 0 : int(width - x < 8 ? width - x : 8);
    auto* base = static_cast<std::byte*>(const_cast<void*>(m.base));
    visit(inside && first < last ? Chunk{offset, base + place, first, last}
                                 : Chunk{offset, nullptr, 0, 0});
    i[0] += 8;
    for (std::size_t d = 0; d + 1 < i.size() && i[d] >= m.box[d]; ++d) {
      i[d] = 0;
      ++i[d + 1];
    }
  }
}

}  // namespace tessera::emulator
