#include <array>
#include <charconv>
#include <cmath>

#include "core/json.hpp"

namespace tessera::core {

std::string json_digits(double number) {
  if (!std::isfinite(number)) return "null";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

}  // namespace tessera::core
