#include "tools/tessera/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using core::DType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::int64_t kMagicSize = 6, kVersionSize = 2;
constexpr std::size_t kMaxRank = 4;

struct TypeRow {
  std::string_view code;  // without the byte order
  DType dtype;
};
constexpr TypeRow kTypes[] = {
    {"f2", DType::kFloat16}, {"f4", DType::kFloat32}, {"f8", DType::kFloat64}, {"b1", DType::kBool},
    {"u1", DType::kUint8},   {"i4", DType::kInt32},   {"i8", DType::kInt64},
};

// Integers that are widened to int64.
struct IntegerRow {
  std::string_view code;
  DType as_wide;  // any type of that width
  bool is_signed;
};
constexpr IntegerRow kIntegers[] = {
    {"i1", DType::kUint8, true},  {"i2", DType::kFloat16, true}, {"u2", DType::kFloat16, false},
    {"u4", DType::kInt32, false}, {"u8", DType::kInt64, false},
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// The header is a Python dictionary with three keys; this reads exactly that.
class HeaderReader {
 public:
  HeaderReader(const Contents& file, std::string_view text) : file_(file), text_(text) {}

  Header read() {
    take('{');
    while (!follows('}')) {
      read_entry();
      if (!skip(',')) break;
    }
    take('}');
    if (!rest().empty()) wrong();
    for (const char* key : {"descr", "fortran_order", "shape"})
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
        refuse(
            fmt::format("{} has no '{}' in its header, so it is no .npy file; write it again "
                        "with numpy.save",
                        file_.name, key));
    return header_;
  }

 private:
  [[noreturn]] void wrong() const {
    refuse(
        fmt::format("{} has a header that is not the dictionary of a .npy file (at \"{}\"); "
                    "write it again with numpy.save",
                    file_.name, printable(text_.substr(0, 20))));
  }

  std::string_view rest() {
    const std::size_t first = text_.find_first_not_of(" \n\t\r");
    text_.remove_prefix(std::min(first, text_.size()));
    return text_;
  }
  bool follows(char c) { return !rest().empty() && text_.front() == c; }
  bool skip(char c) {
    if (!follows(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void take(char c) {
    if (!skip(c)) wrong();
  }

  std::string read_string() {
    const char quote = follows('"') ? '"' : '\'';
    take(quote);
    const std::size_t end = text_.find(quote);
    if (end == text_.npos) wrong();
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }

  bool read_bool() {
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest().starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    wrong();
  }

  std::int64_t read_size() {
    std::int64_t n = 0;
    const auto [stop, error] = std::from_chars(rest().data(), text_.data() + text_.size(), n);
    if (error != std::errc() || n < 0) wrong();
    text_.remove_prefix(std::size_t(stop - text_.data()));
    return n;
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    take('(');
    while (!follows(')')) {
      shape.push_back(read_size());
      if (!skip(',')) break;
    }
    take(')');
    return shape;
  }

  // descr is a list for records; their sentence comes with the type.
  std::string read_descr() {
    if (!follows('[')) return read_string();
    refuse(
        fmt::format("{} holds records with fields; give an array of one number type", file_.name));
  }

  void read_entry() {
    const std::string key = read_string();
    take(':');
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) wrong();
    seen_.push_back(key);
    if (key == "descr")
      header_.descr = read_descr();
    else if (key == "fortran_order")
      header_.fortran_order = read_bool();
    else if (key == "shape")
      header_.shape = read_shape();
    else
      wrong();
  }

  const Contents& file_;
  std::string_view text_;
  std::vector<std::string> seen_;
  Header header_;
};

[[noreturn]] void refuse_cut_off(const Contents& file, std::string_view part) {
  refuse(fmt::format("{} is cut off in its {}: it has {} bytes; copy or write it again", file.name,
                     part, file.size()));
}

struct Layout {
  Header header;
  std::int64_t data;  // where the elements begin
};

Layout read_layout(const Contents& file) {
  if (file.size() < kMagicSize + kVersionSize) refuse_cut_off(file, "header");
  const int major = std::to_integer<int>(*file.at(kMagicSize));
  if (major < 1 || major > 3)
    refuse(
        fmt::format("{} is .npy of version {}; 1, 2 and 3 are accepted: write it again with "
                    "numpy.save",
                    file.name, major));
  const int width = major == 1 ? 2 : 4;
  const std::int64_t begin = kMagicSize + kVersionSize + width;
  if (file.size() < begin) refuse_cut_off(file, "header");
  const auto length = std::int64_t(little_endian(file.at(begin - width), width));
  if (length > file.size() - begin) refuse_cut_off(file, "header");
  return {HeaderReader(file, file.text(begin, length)).read(), begin + length};
}

// The two letters of a type such as "<f4", or a refusal of its byte order.
std::string_view type_code(const Contents& file, const std::string& descr) {
  const std::string_view code(descr);
  if (code.starts_with('>'))
    refuse(
        fmt::format("{} is big-endian ('{}'); write it again as little-endian, in NumPy with "
                    "x.astype('<{}')",
                    file.name, printable(descr), printable(code.substr(1))));
  const bool has_order = !code.empty() && std::string_view("<=|").find(code[0]) != code.npos;
  return has_order ? code.substr(1) : code;
}

[[noreturn]] void refuse_type(const Contents& file, const std::string& descr) {
  const bool bfloat16 = descr.find("bfloat16") != descr.npos || descr.ends_with("V2");
  refuse(fmt::format("{} holds elements of type '{}'; {}", file.name, printable(descr),
                     bfloat16 ? npy_cannot_hold(DType::kBfloat16)
                              : "f2, f4, f8, b1 and integers are accepted: convert it with "
                                "x.astype('<f4')"));
}

void check_size(const Contents& file, const Layout& layout, DType file_type) {
  const std::vector<std::int64_t>& shape = layout.header.shape;
  if (shape.size() > kMaxRank)
    refuse(fmt::format("{} has {} dimensions; at most 4 are accepted: [B, L, H, D]", file.name,
                       shape.size()));
  const std::optional<std::int64_t> bytes = bytes_of(file_type, shape);
  const std::int64_t there = file.size() - layout.data;
  if (bytes == there) return;
  const std::string needed = bytes ? fmt::format("{}", *bytes) : "more than 2^63";
  refuse(
      fmt::format("{} is {}: an array of shape {} takes {} bytes, and {} are there; copy or write "
                  "it again",
                  file.name, !bytes || *bytes > there ? "cut off" : "too long", shape_text(shape),
                  needed, there));
}

// The number of `width` bytes; past 2^63 it comes out negative.
std::int64_t widened(bool is_signed, int width, const std::byte* from) {
  const std::uint64_t n = little_endian(from, width);
  const int unused = 64 - 8 * width;
  return is_signed ? std::int64_t(n << unused) >> unused : std::int64_t(n);
}

Array read_integers(const Contents& file, const Layout& layout, const IntegerRow& row) {
  check_size(file, layout, row.as_wide);
  const auto width = int(core::size_of(row.as_wide));
  Array wide = make_array(DType::kInt64, layout.header.shape);
  for (std::int64_t n = 0; n < count(wide.tensor); ++n) {
    const std::int64_t value = widened(row.is_signed, width, file.at(layout.data + n * width));
    if (!row.is_signed && value < 0)
      refuse(fmt::format("{} holds an integer past 2^63; smaller ones are accepted", file.name));
    std::memcpy(static_cast<std::byte*>(wide.tensor.data) + 8 * n, &value, sizeof value);
  }
  return wide;
}

// Row-major strides as column-major ones.
Array in_fortran_order(Array array) {
  std::int64_t stride = 1;
  for (std::size_t d = 0; d < std::size_t(array.rank); ++d) {
    array.tensor.stride[d] = stride;
    stride *= array.tensor.shape[d];
  }
  return array;
}

Array read_elements(const Contents& file, const Layout& layout) {
  const std::string_view code = type_code(file, layout.header.descr);
  for (const TypeRow& row : kTypes) {
    if (row.code != code) continue;
    check_size(file, layout, row.dtype);
    return array_at(file, layout.data, row.dtype, layout.header.shape);
  }
  for (const IntegerRow& row : kIntegers)
    if (row.code == code) return read_integers(file, layout, row);
  refuse_type(file, layout.header.descr);
}

std::string_view code_of(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.code;
  return "";
}

}  // namespace

bool looks_like_npy(const Contents& file) {
  return file.size() >= kMagicSize && file.text(0, kMagicSize) == kMagic;
}

Array read_npy(const Contents& file) {
  if (!looks_like_npy(file))
    refuse(fmt::format("{} does not begin like a .npy file; write it with numpy.save", file.name));
  const Layout layout = read_layout(file);
  const Array array = read_elements(file, layout);
  return layout.header.fortran_order ? in_fortran_order(array) : array;
}

std::string npy_cannot_hold(DType dtype) {
  if (!code_of(dtype).empty()) return "";
  return fmt::format(".npy has no {}: use .safetensors", core::name_of(dtype));
}

std::string npy_bytes(const Array& array) {
  const std::string_view order = core::size_of(array.tensor.dtype) == 1 ? "|" : "<";
  std::string sizes;
  for (const std::int64_t n : array.shape()) sizes += fmt::format("{}, ", n);
  if (array.rank > 1) sizes.resize(sizes.size() - 2);
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   order, code_of(array.tensor.dtype),
                                   array.rank == 1 ? sizes.substr(0, sizes.size() - 1) : sizes);
  const std::size_t before = std::size_t(kMagicSize + kVersionSize) + 2;
  header.append(63 - (before + header.size()) % 64, ' ').push_back('\n');  // data at 64 bytes
  std::string file(kMagic);
  file.append({1, 0, char(header.size() & 0xff), char(header.size() >> 8)});
  file += header;
  const auto bytes = std::size_t(*bytes_of(array.tensor.dtype, array.shape()));
  return file.append(static_cast<const char*>(array.tensor.data), bytes);
}

}  // namespace tessera::tool
