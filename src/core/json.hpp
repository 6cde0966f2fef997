// JSON that is text from the first. There is no tree of values to take down again: that of a
// library allocates in its destructors, which ends the program where memory has run out.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tessera::core {

// The shortest text that reads back as the same number; null where it is not finite. A file of its
// own: the web page lets JavaScript write them, whose tables need not be sent.
std::string json_digits(double number);

class Json {
 public:
  struct Member;

  // An object: {{"name", value}, ...}, in that order.
  Json(std::initializer_list<Member> members);
  static Json array() { return Json(Text{"[]"}); }
  static Json null() { return Json(Text{"null"}); }

  // A string of UTF-8, a number or a truth; a description is written as it will read.
  explicit(false) Json(std::string_view string);
  explicit(false) Json(const std::string& string) : Json(std::string_view(string)) {}
  explicit(false) Json(const char* string) : Json(std::string_view(string)) {}
  template <std::integral Number> explicit(false) Json(Number number) {
    if constexpr (std::same_as<Number, bool>)
      text_ = number ? "true" : "false";
    else
      text_ = std::to_string(number);
  }
  explicit(false) Json(double number);  // with all its digits; null where it is not finite

  // To an array, and to an object.
  void push_back(const Json& value) { append("", value); }
  void add(std::string_view name, const Json& value);

  const std::string& text() const { return text_; }

 private:
  struct Text {
    const char* text;
  };
  explicit Json(Text text) : text_(text.text) {}
  // Before the closing bracket.
  void append(std::string_view label, const Json& value);

  std::string text_;
};

struct Json::Member {
  std::string_view name;
  Json value;
};

}  // namespace tessera::core
