// What the page lends to the core in place of an operating system: digits, and a way to fail.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/json.hpp"

extern "C" {

// Throws an Error with this sentence; the instance is not used again.
[[noreturn]] __attribute__((import_module("page"), import_name("fail"))) void page_fail(
    const char* sentence, std::size_t size);

// Writes the shortest decimal text of a finite number; returns its length, at most 32.
__attribute__((import_module("page"), import_name("digits"))) std::size_t page_digits(double number,
                                                                                      char* text);
}

namespace tessera::core {

void fail(Status, std::string_view sentence) { page_fail(sentence.data(), sentence.size()); }

std::string json_digits(double number) {
  if (number - number != 0) return "null";
  std::array<char, 32> text;
  return {text.data(), page_digits(number, text.data())};
}

}  // namespace tessera::core

// In place of the library's, which would bring all of printf along.
namespace std::inline __2 {
[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) {
  page_fail(format, std::char_traits<char>::length(format));
}
}  // namespace std::inline __2
