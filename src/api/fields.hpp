// The tensors of tessera_attention_desc as data: whence, whereto, and what each may be.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/problem.hpp"
#include "tessera/tessera.h"

namespace tessera::api {

// The letters of a shape. Bq and Bk are the batch rows in memory of q and of k; they are B unless
// sequences are packed (then 1), paged or read through cache_batch_idx (then free).
enum class Letter : std::uint8_t { kB, kBq, kBk, kLq, kLk, kH, kHk, kD, kDv, kOne, kFree, kCount };

inline constexpr std::string_view kLetterNames[] = {"B",  "Bq", "Bk", "Lq", "Lk", "H",
                                                    "Hk", "D",  "Dv", "1",  "any"};

using Letters = std::array<Letter, 4>;

enum class Use : std::uint8_t { kInput, kOutput };

// Which dtypes are accepted, and the words for it.
struct Types {
  std::string_view words;
  std::span<const core::DType> dtypes;
};

enum class TypeSet : std::uint8_t { kFloats, kBias, kMask, kLengths, kInt32, kFloat32, kLse };

const Types& types_of(TypeSet set);

// How the shape is checked: as the letters say, or by a rule of its own.
enum class Rule : std::uint8_t { kLetters, kBroadcast, kAlibi, kBoundaries };

struct Field {
  std::string_view name;
  tessera_tensor tessera_attention_desc::* given;
  core::Tensor core::Problem::* tensor;
  TypeSet types;
  Letters letters;
  Rule rule = Rule::kLetters;
  Use use = Use::kInput;
};

inline constexpr std::size_t kMostFields = 24;  // no fewer than there are
std::span<const Field> fields();

}  // namespace tessera::api
