#include "tools/tessera/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using core::DType;
using nlohmann::json;
using Entry = Safetensors::Entry;

constexpr std::int64_t kLengthSize = 8;
constexpr std::int64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr int kMaxDepth = 4;                      // {name: {"shape": [n]}} has 3
constexpr std::size_t kMaxRank = 4;

// Every type of the format with the bytes of its elements, and what it is here.
struct TypeRow {
  std::string_view word;
  std::int64_t size;
  DType dtype;  // of those that are computed with
  bool known;
};
constexpr TypeRow kTypes[] = {
    {"F32", 4, DType::kFloat32, true},
    {"F16", 2, DType::kFloat16, true},
    {"BF16", 2, DType::kBfloat16, true},
    {"F64", 8, DType::kFloat64, true},
    {"BOOL", 1, DType::kBool, true},
    {"U8", 1, DType::kUint8, true},
    {"I32", 4, DType::kInt32, true},
    {"I64", 8, DType::kInt64, true},
    {"I8", 1, {}, false},
    {"I16", 2, {}, false},
    {"U16", 2, {}, false},
    {"U32", 4, {}, false},
    {"U64", 8, {}, false},
    {"F8_E4M3", 1, {}, false},
    {"F8_E5M2", 1, {}, false},
};

const TypeRow* find_type(std::string_view word) {
  for (const TypeRow& row : kTypes)
    if (row.word == word) return &row;
  return nullptr;
}

std::string shown(std::string_view text) { return fmt::format("'{}'", printable(text)); }

[[noreturn]] void refuse_file(const Contents& file, std::string_view what) {
  refuse(
      fmt::format("{} is no sound .safetensors file: {}; copy or write it again", file.name, what));
}

// Looks at the JSON while it is read: depth is bounded, and no key comes twice in one object.
class KeyCheck {
 public:
  explicit KeyCheck(const Contents& file) : file_(file) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kMaxDepth) refuse_file(file_, "its header is nested too deeply");
    if (event == json::parse_event_t::object_start) keys_.resize(std::size_t(depth) + 1, {});
    if (event == json::parse_event_t::object_start) keys_.back().clear();
    if (event == json::parse_event_t::key) see(depth, parsed.get_ref<const std::string&>());
    return true;
  }

 private:
  // A key has the depth of its object plus one.
  void see(int depth, const std::string& key) {
    keys_.resize(std::size_t(depth));
    if (!keys_.back().insert(key).second)
      refuse_file(file_, fmt::format("its header has {} twice", shown(key)));
  }

  const Contents& file_;
  std::vector<std::set<std::string>> keys_;
};

json parse_header(const Contents& file, std::string_view text) {
  if (!text.starts_with('{')) refuse_file(file, "its header does not begin with '{'");
  KeyCheck check(file);
  const auto callback = [&check](int depth, json::parse_event_t event, json& parsed) {
    return check(depth, event, parsed);
  };
  try {
    return json::parse(text, callback);
  } catch (const json::parse_error& error) {
    refuse_file(file, fmt::format("its header is not JSON (near byte {})", error.byte));
  } catch (const json::out_of_range&) {
    refuse_file(file, "its header has a number that no type can hold");
  }
}

// One entry of the header, read with checks.
class EntryReader {
 public:
  EntryReader(const Contents& file, const std::string& name, const json& value)
      : file_(file), name_(name), value_(value) {}

  Entry read(std::int64_t data_size) const {
    if (!value_.is_object() || value_.size() != 3) wrong("dtype, shape and data_offsets");
    Entry entry;
    if (!member("dtype").is_string()) wrong("a dtype that is a text");
    entry.dtype = member("dtype").get<std::string>();
    entry.shape = sizes("shape");
    const std::vector<std::int64_t> offsets = sizes("data_offsets");
    if (offsets.size() != 2) wrong("two data_offsets");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    check_size(entry, data_size);
    return entry;
  }

 private:
  [[noreturn]] void wrong(std::string_view wanted) const {
    refuse_file(file_, fmt::format("its tensor {} must have {}", shown(name_), wanted));
  }

  const json& member(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) wrong("dtype, shape and data_offsets");
    return *found;
  }

  std::vector<std::int64_t> sizes(const char* key) const {
    const json& list = member(key);
    if (!list.is_array()) wrong(fmt::format("a {} that is a list", key));
    std::vector<std::int64_t> numbers;
    for (const json& n : list) {
      if (!n.is_number_unsigned() || n.get<std::uint64_t>() > INT64_MAX)
        wrong(fmt::format("a {} of integers from 0 to 2^63 - 1", key));
      numbers.push_back(n.get<std::int64_t>());
    }
    return numbers;
  }

  void check_size(const Entry& entry, std::int64_t data_size) const {
    if (entry.begin > entry.end || entry.end > data_size)
      wrong(fmt::format("data_offsets inside the {} bytes of data that are there", data_size));
    const TypeRow* type = find_type(entry.dtype);
    if (type == nullptr) return;
    const auto elements = bytes_of(DType::kUint8, entry.shape);
    std::int64_t bytes = 0;
    if (!elements || __builtin_mul_overflow(*elements, type->size, &bytes) ||
        bytes != entry.end - entry.begin)
      wrong(fmt::format("as many bytes of data as {} of shape {} takes", entry.dtype,
                        shape_text(entry.shape)));
  }

  const Contents& file_;
  const std::string& name_;
  const json& value_;
};

// The tensors lie one after another, from the first byte of the data to the last.
void check_cover(const Contents& file, const std::map<std::string, Entry>& entries,
                 std::int64_t data_size) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const auto& [name, entry] : entries) spans.emplace_back(entry.begin, entry.end);
  std::sort(spans.begin(), spans.end());
  std::int64_t covered = 0;
  for (const auto& [begin, end] : spans) {
    if (begin < covered) refuse_file(file, fmt::format("two tensors overlap at byte {}", begin));
    if (begin > covered) refuse_file(file, fmt::format("no tensor has byte {}", covered));
    covered = end;
  }
  if (covered != data_size)
    refuse_file(file, fmt::format("{} bytes follow the last tensor", data_size - covered));
}

std::string_view word_of(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.known && row.dtype == dtype) return row.word;
  return "";
}

}  // namespace

Safetensors::Safetensors(Contents file) : file_(std::move(file)) {
  if (file_.size() < kLengthSize) refuse_file(file_, fmt::format("it has {} bytes", file_.size()));
  const std::uint64_t length = little_endian(file_.at(0), 8);
  if (length > std::uint64_t(std::min(file_.size() - kLengthSize, kMaxHeader)))
    refuse_file(file_,
                fmt::format("its header claims {} bytes, of a file of {}", length, file_.size()));
  data_ = kLengthSize + std::int64_t(length);
  const json header = parse_header(file_, file_.text(kLengthSize, std::int64_t(length)));
  const std::int64_t data_size = file_.size() - data_;
  for (const auto& [name, value] : header.items())
    if (name != "__metadata__")
      entries_.emplace(name, EntryReader(file_, name, value).read(data_size));
  check_cover(file_, entries_, data_size);
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::string Safetensors::name_list() const {
  std::string list;
  for (const auto& [name, entry] : entries_) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : printable(list);
}

Array Safetensors::get(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  const TypeRow* type = find_type(entry.dtype);
  if (type == nullptr || !type->known)
    refuse(
        fmt::format("tensor '{}' of {} is {}; F32, F16, BF16, F64, BOOL, U8, I32 and I64 are "
                    "accepted: convert it",
                    name, file_.name, shown(entry.dtype)));
  if (entry.shape.size() > kMaxRank)
    refuse(fmt::format("tensor '{}' of {} has {} dimensions; at most 4 are accepted: [B, L, H, D]",
                       name, file_.name, entry.shape.size()));
  return array_at(file_, data_ + entry.begin, type->dtype, entry.shape);
}

std::string safetensors_bytes(const std::vector<std::pair<std::string, Array>>& arrays) {
  json header = json::object();
  std::string data;
  for (const auto& [name, array] : arrays) {
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(array.tensor.data),
                std::size_t(*bytes_of(array.tensor.dtype, array.shape())));
    header[name] = {
        {"dtype", word_of(array.tensor.dtype)},
        {"shape", std::vector<std::int64_t>(array.shape().begin(), array.shape().end())},
        {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data is aligned
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(char(text.size() >> 8 * i & 0xff));
  return file + text + data;
}

}  // namespace tessera::tool
