// How a call is refused: require(condition, which sentence, what fills it).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <variant>

#include "api/sentences.hpp"
#include "core/tensor.hpp"

namespace tessera::api {

// Sizes or strides, of which the first `rank` are shown.
struct Shape {
  core::Index4 sizes{};
  int rank = 4;
};

// Shown in hexadecimal.
struct Hex {
  std::uint64_t bits;
};

// What fills one {} of a sentence. A string is shown up to 64 bytes, so that every sentence fits
// the message of a tessera_error.
using Argument = std::variant<std::int64_t, std::uint64_t, double, std::string_view, Shape, Hex>;

// Fails with the sentence and its status.
[[noreturn]] void refuse(Sentence id, std::initializer_list<Argument> arguments);

// Formats only on failure, so that a check costs its comparison.
template <class... Arguments>
void require(bool condition, Sentence id, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    refuse(id, {Argument(arguments)...});
}

}  // namespace tessera::api
