#include "core/json.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace tessera::core {
namespace {

// Source: RFC 8259, section 7: quotes, backslashes and control characters are written with a
// backslash, everything else as it is.
std::string quoted(std::string_view string) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : string) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') text += '\\';
    if (code >= 0x20)
      text += c;
    else
      text.append("\\u00") += {kHex[code / 16], kHex[code % 16]};
  }
  return text += '"';
}

// The shortest that reads back as the same number.
std::string digits(double number) {
  if (!std::isfinite(number)) return "null";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

}  // namespace

Json::Json(std::initializer_list<Member> members) : text_("{}") {
  for (const Member& member : members) add(member.name, member.value);
}

Json::Json(std::string_view string) : text_(quoted(string)) {}

Json::Json(double number) : text_(digits(number)) {}

void Json::add(std::string_view name, const Json& value) { append(quoted(name) + ":", value); }

void Json::append(std::string_view label, const Json& value) {
  std::string more(text_.size() == 2 ? "" : ",");
  more.append(label).append(value.text_);
  text_.insert(text_.size() - 1, more);
}

}  // namespace tessera::core
