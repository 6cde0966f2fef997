#include "tools/tessera/parse.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

struct BackendRow {
  std::uint32_t backend;
  std::string_view word;
};
constexpr BackendRow kBackends[] = {
    {TESSERA_BACKEND_AUTO, "auto"},           {TESSERA_BACKEND_CPU, "cpu"},
    {TESSERA_BACKEND_REFERENCE, "reference"}, {TESSERA_BACKEND_STANDARD, "standard"},
    {TESSERA_BACKEND_CUDA, "cuda"},           {TESSERA_BACKEND_EMULATOR, "emulator"},
};

constexpr core::DType kCallTypes[] = {core::DType::kFloat32, core::DType::kFloat16,
                                      core::DType::kBfloat16};

// True if all of text is one number.
template <class T> bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma; (comma = text.find(',')) != text.npos; text.remove_prefix(comma + 1))
    parts.push_back(text.substr(0, comma));
  parts.push_back(text);
  return parts;
}

std::int64_t parse_side(const std::string& text, std::int64_t side) {
  if (side < -1)
    refuse(fmt::format("--window is '{}'; each side is a number of keys >= 0, or -1 for all keys",
                       text));
  return side == -1 ? TESSERA_UNBOUNDED : side;
}

}  // namespace

std::int64_t parse_integer(std::string_view option, std::string_view text) {
  std::int64_t value = 0;
  if (!read_number(text, value))
    refuse(fmt::format("{} is '{}'; give an integer of at most 64 bits", option, text));
  return value;
}

float parse_float(std::string_view option, std::string_view text) {
  float value = 0;
  if (!read_number(text, value) || !std::isfinite(value))
    refuse(fmt::format("{} is '{}'; give a finite number, such as 0.125", option, text));
  return value;
}

float parse_softcap(const std::string& text) {
  const float cap = parse_float("--softcap", text);
  if (!(cap > 0))
    refuse(fmt::format("--softcap is {}; give a number > 0, or leave it out for no cap", text));
  return cap;
}

std::vector<std::int64_t> parse_integers(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view part : split(text)) {
    std::int64_t n = 0;
    if (!read_number(part, n))
      refuse(
          fmt::format("{} is '{}'; give integers separated by commas, such as 5,7", option, text));
    numbers.push_back(n);
  }
  return numbers;
}

Window parse_window(const std::string& text) {
  const std::vector<std::int64_t> sides = parse_integers("--window", text);
  if (sides.size() != 2)
    refuse(
        fmt::format("--window is '{}'; give two numbers, L,R: the keys before and after the "
                    "diagonal, -1 for all",
                    text));
  return {parse_side(text, sides[0]), parse_side(text, sides[1])};
}

Alignment parse_alignment(const std::string& text) {
  if (text == "top-left") return {TESSERA_ALIGN_TOP_LEFT, 0};
  if (text == "bottom-right") return {TESSERA_ALIGN_BOTTOM_RIGHT, 0};
  std::int64_t offset = 0;
  if (!read_number(std::string_view(text), offset))
    refuse(
        fmt::format("--align is '{}'; give top-left, bottom-right, or an integer: the key on the "
                    "diagonal of query 0",
                    text));
  return {TESSERA_ALIGN_OFFSET, offset};
}

core::DType parse_dtype(const std::string& text) {
  for (const core::DType dtype : kCallTypes)
    if (dtype_word(dtype) == text) return dtype;
  refuse(fmt::format("--dtype is '{}'; give f32, f16 or bf16", text));
}

std::uint32_t parse_backend(const std::string& text) {
  for (const BackendRow& row : kBackends)
    if (row.word == text) return row.backend;
  refuse(
      fmt::format("--backend is '{}'; give auto, cpu, reference, standard, cuda or "
                  "emulator",
                  text));
}

int parse_threads(const std::string& text) {
  const std::int64_t n = parse_integer("--threads", text);
  if (n < 1 || n > INT32_MAX)
    refuse(
        fmt::format("--threads is {}; give a number >= 1, or leave it out to use the processors "
                    "there are",
                    text));
  return int(n);
}

std::uint64_t parse_unsigned(std::string_view option, const std::string& text) {
  std::uint64_t value = 0;
  if (!read_number(std::string_view(text), value))
    refuse(fmt::format("{} is '{}'; give an integer >= 0 of at most 64 bits", option, text));
  return value;
}

std::uint64_t parse_seed(const std::string& text) { return parse_unsigned("--seed", text); }

std::uint32_t parse_dropout_offset(const std::string& text) {
  std::uint32_t offset = 0;
  if (!read_number(std::string_view(text), offset))
    refuse(fmt::format("--dropout-offset is '{}'; give an integer >= 0 of at most 32 bits", text));
  return offset;
}

std::int64_t parse_page_size(const std::string& text) {
  const std::int64_t keys = parse_integer("--page-size", text);
  if (keys < 1)
    refuse(fmt::format("--page-size is {}; give the keys of a page, a number >= 1", text));
  return keys;
}

std::int64_t parse_splits(const std::string& text) {
  const std::int64_t n = parse_integer("--splits", text);
  if (n < 1 || n > 10000)
    refuse(fmt::format("--splits is {}; give a number from 1 to 10000", text));
  return n;
}

Shape parse_shape(const std::string& text) {
  const std::vector<std::int64_t> n = parse_integers("--shape", text);
  if (n.size() != 7)
    refuse(
        fmt::format("--shape is '{}', {} numbers; give seven, B,Lq,Lk,H,Hk,D,Dv, such as "
                    "1,512,512,8,8,64,64",
                    text, n.size()));
  for (const std::int64_t size : n)
    if (size < 0) refuse(fmt::format("--shape is '{}'; sizes are >= 0, and {} is not", text, size));
  return {n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
}

std::string to_text(const Shape& s) {
  return fmt::format("{},{},{},{},{},{},{}", s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.dim,
                     s.value_dim);
}

std::string_view dtype_word(core::DType dtype) {
  for (const core::DTypeRow& row : core::kDTypes)
    if (row.dtype == dtype) return row.short_name;
  return "unknown";
}

std::string_view backend_word(std::uint32_t backend) {
  for (const BackendRow& row : kBackends)
    if (row.backend == backend) return row.word;
  return "unknown";
}

Window AttentionOptions::band() const {
  Window band = window.value_or(Window{});
  if (!causal) return band;
  if (band.right != 0 && band.right != TESSERA_UNBOUNDED)
    refuse(
        fmt::format("--causal hides every key after the diagonal, and --window asks for {} of "
                    "them; drop one of the two, or make the window's R 0",
                    band.right));
  band.right = 0;
  return band;
}

}  // namespace tessera::tool
