// The one place where a struct of an older or newer caller is read, by the rule of Linux's
// extensible structs: what the caller does not have gets its default, and what this library does
// not have must be 0.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "api/require.hpp"
#include "tessera/version.h"

namespace tessera::api {

// Far above any struct to come, so that a size that was never set does not send us through memory.
inline constexpr std::uint32_t kLargestStruct = 1u << 16;

template <class T> struct Versioned {
  std::string_view name, type;  // for sentences: "desc", "tessera_attention_desc"
  std::uint32_t first_size;     // of the first version that was released
  T (*defaults)();
};

inline bool all_zero(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte x) { return x == std::byte{0}; });
}

// `theirs` itself if it has our size, as it nearly always does, else a translation in `ours`.
template <class T> const T& read_versioned(const Versioned<T>& about, const T* theirs, T& ours) {
  require(theirs != nullptr, Sentence::kNullStruct, about.name, about.type, about.type);
  const std::uint32_t size = theirs->size;
  if (size == sizeof(T)) return *theirs;
  require(about.first_size <= size && size <= kLargestStruct, Sentence::kStructSize, about.name,
          std::int64_t{size}, std::int64_t{about.first_size}, std::int64_t{kLargestStruct},
          about.type);
  const auto* bytes = reinterpret_cast<const std::byte*>(theirs);
  require(size <= sizeof(T) || all_zero(bytes + sizeof(T), bytes + size), Sentence::kNewerStruct,
          about.name, std::string_view(TESSERA_VERSION_STRING));
  ours = about.defaults();
  std::memcpy(&ours, bytes, std::min<std::size_t>(size, sizeof(T)));
  ours.size = sizeof(T);
  return ours;
}

}  // namespace tessera::api
