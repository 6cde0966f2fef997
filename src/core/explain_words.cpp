#include "core/explain_words.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>

#include "core/error.hpp"

namespace tessera::core::words {
namespace {

[[noreturn]] void refuse(std::string_view flag, std::string_view text, const char* advice) {
  std::string sentence(flag);
  sentence.append(" is '").append(text).append("'; give ").append(advice);
  fail(Status::kInvalidArgument, sentence);
}

template <class Integer> bool read(std::string_view text, Integer& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

// By the C library, since the C++ library of WebAssembly reads no floating-point numbers. Decimal
// alone: what strtof takes besides (spaces, hexadecimal, "inf") has other letters.
template <class Float>
bool read(std::string_view text, Float& value, Float (*convert)(const char*, char**)) {
  if (text.empty() || text.find_first_not_of("0123456789.+-eE") != text.npos) return false;
  const std::string copy(text);
  char* stop = nullptr;
  value = convert(copy.c_str(), &stop);
  return *stop == '\0' && std::isfinite(value);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma; (comma = text.find(',')) != text.npos; text.remove_prefix(comma + 1))
    parts.push_back(text.substr(0, comma));
  parts.push_back(text);
  return parts;
}

std::vector<std::int64_t> integers(std::string_view flag, std::string_view text,
                                   const char* advice) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : split(text)) {
    values.emplace_back();
    if (!read(part, values.back())) refuse(flag, text, advice);
  }
  return values;
}

std::int64_t side(std::int64_t keys) { return keys == -1 ? Band::kUnbounded : Band::clamp(keys); }

}  // namespace

std::int64_t integer(std::string_view flag, std::string_view text) {
  std::int64_t value = 0;
  if (!read(text, value)) refuse(flag, text, "an integer of at most 64 bits");
  return value;
}

std::int64_t positive(std::string_view flag, std::string_view text) {
  const std::int64_t value = integer(flag, text);
  if (value < 1)
    fail(Status::kInvalidArgument,
         std::string(flag) + " is " + std::to_string(value) + "; give an integer >= 1");
  return value;
}

std::uint64_t seed(std::string_view text) {
  std::uint64_t value = 0;
  if (!read(text, value)) refuse("--seed", text, "an integer >= 0 of at most 64 bits");
  return value;
}

float number(std::string_view flag, std::string_view text) {
  float value = 0;
  if (!read(text, value, std::strtof)) refuse(flag, text, "a finite number, such as 0.125");
  return value;
}

double rate(std::string_view flag, std::string_view text) {
  double value = 0;
  if (!read(text, value, std::strtod) || value <= 0)
    refuse(flag, text, "a number > 0, such as 3.35e12");
  return value;
}

std::vector<float> numbers(std::string_view flag, std::string_view text) {
  std::vector<float> values;
  for (const std::string_view part : split(text)) values.push_back(number(flag, part));
  return values;
}

std::vector<std::int64_t> lengths(std::string_view text) {
  constexpr const char* kAdvice = "lengths >= 1 separated by commas, such as 1024,4096";
  std::vector<std::int64_t> values = integers("--lengths", text, kAdvice);
  for (const std::int64_t n : values)
    if (n < 1) refuse("--lengths", text, kAdvice);
  return values;
}

DType dtype(std::string_view text) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBfloat16})
    for (const DTypeRow& row : kDTypes)
      if (row.dtype == type && row.short_name == text) return type;
  refuse("--dtype", text, "f32, f16 or bf16");
}

TileSize tile(std::string_view text) {
  constexpr const char* kAdvice = "rows of q and rows of k and v, such as 64,128";
  const std::vector<std::int64_t> sides = integers("--tile", text, kAdvice);
  if (sides.size() != 2 || sides[0] < 1 || sides[1] < 1) refuse("--tile", text, kAdvice);
  return {sides[0], sides[1]};
}

Pass pass(std::string_view text) {
  if (text == "forward") return Pass::kForward;
  if (text == "backward") return Pass::kBackward;
  refuse("--pass", text, "forward or backward");
}

Range hidden(std::string_view text) {
  constexpr const char* kAdvice = "one key, or the first and the last: 2,3";
  const std::vector<std::int64_t> ends = integers("--hide", text, kAdvice);
  if (ends.size() > 2) refuse("--hide", text, kAdvice);
  return {Band::clamp(ends.front()), Band::clamp(ends.back()) + 1};
}

Band window(std::string_view text) {
  constexpr const char* kAdvice =
      "the keys before and after the diagonal, -1 for all of them, such as 16,0";
  const std::vector<std::int64_t> sides = integers("--window", text, kAdvice);
  if (sides.size() != 2 || sides[0] < -1 || sides[1] < -1) refuse("--window", text, kAdvice);
  return {.left = side(sides[0]), .right = side(sides[1])};
}

}  // namespace tessera::core::words
