// The contents of a file, and little-endian numbers in it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tessera/array.hpp"

namespace tessera::tool {

// A whole file. Arrays that were read from it share its memory.
struct Contents {
  std::string name;  // for the sentences
  std::shared_ptr<std::vector<std::byte>> bytes;

  std::int64_t size() const { return std::int64_t(bytes->size()); }
  const std::byte* at(std::int64_t offset) const { return bytes->data() + offset; }
  std::string_view text(std::int64_t offset, std::int64_t length) const {
    return {reinterpret_cast<const char*>(at(offset)), std::size_t(length)};
  }
};

// An unsigned number of `width` bytes, the lowest first.
inline std::uint64_t little_endian(const std::byte* from, int width) {
  std::uint64_t n = 0;
  for (int i = width; i-- > 0;) n = n << 8 | std::to_integer<std::uint64_t>(from[i]);
  return n;
}

// Text from a file, made fit for a terminal and not too long.
inline std::string printable(std::string_view text) {
  std::string shown(text.substr(0, 60));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > 60 ? shown + "..." : shown;
}

// `shape` at `offset` of the file: in place if it is aligned there, else a copy. The caller has
// checked that it lies inside.
inline Array array_at(const Contents& file, std::int64_t offset, core::DType dtype,
                      std::span<const std::int64_t> shape) {
  std::byte* data = file.bytes->data() + offset;
  if (reinterpret_cast<std::uintptr_t>(data) % std::uint64_t(core::size_of(dtype)) == 0)
    return view_of(std::shared_ptr<void>(file.bytes, data), dtype, shape);
  Array copy = make_array(dtype, shape);
  std::memcpy(copy.tensor.data, data, std::size_t(*bytes_of(dtype, shape)));
  return copy;
}

}  // namespace tessera::tool
