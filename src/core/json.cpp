#include "core/json.hpp"

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

}  // namespace

Json::Json(std::initializer_list<Member> members) : text_("{}") {
  for (const Member& member : members) add(member.name, member.value);
}

Json::Json(std::string_view string) : text_(quoted(string)) {}

Json::Json(double number) : text_(json_digits(number)) {}

void Json::add(std::string_view name, const Json& value) { append(quoted(name) + ":", value); }

void Json::append(std::string_view label, const Json& value) {
  std::string more(text_.size() == 2 ? "" : ",");
  more.append(label).append(value.text_);
  text_.insert(text_.size() - 1, more);
}

}  // namespace tessera::core
