#include "api/require.hpp"

#include <charconv>
#include <cstddef>
#include <string>

namespace tessera::api {
namespace {

constexpr std::size_t kLongestString = 64;

// What std::to_chars writes for these arguments.
template <class... Arguments> std::string characters(Arguments... arguments) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, arguments...).ptr};
}

struct Show {
  std::string operator()(std::int64_t x) const { return characters(x); }
  std::string operator()(std::uint64_t x) const { return characters(x); }
  std::string operator()(Hex x) const { return "0x" + characters(x.bits, 16); }
  std::string operator()(double x) const { return characters(x, std::chars_format::general, 6); }
  std::string operator()(std::string_view x) const {
    if (x.size() <= kLongestString) return std::string(x);
    return std::string(x.substr(0, kLongestString - 3)) + "...";
  }
  std::string operator()(const Shape& x) const {
    std::string list = "[";
    for (std::size_t d = 0; d < std::size_t(x.rank); ++d)
      list.append(d == 0 ? "" : ", ").append(characters(x.sizes[d]));
    return list + "]";
  }
};

// The text with its {} filled in their order.
std::string filled(std::string_view text, std::initializer_list<Argument> arguments) {
  std::string sentence;
  for (const Argument& argument : arguments) {
    const std::size_t hole = text.find("{}");
    if (hole == text.npos) break;
    sentence.append(text.substr(0, hole)).append(std::visit(Show{}, argument));
    text.remove_prefix(hole + 2);
  }
  return sentence.append(text);
}

}  // namespace

void refuse(Sentence id, std::initializer_list<Argument> arguments) {
  const SentenceRow& row = row_of(id);
  core::fail(row.status, filled(row.text, arguments));
}

}  // namespace tessera::api
