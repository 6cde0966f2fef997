#include "tools/tessera/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/files.hpp"
#include "tools/tessera/fit.hpp"
#include "tools/tessera/pages.hpp"
#include "tools/tessera/parse.hpp"

namespace tessera::tool {
namespace {

using core::DType;

// The tensor numbers of generated data (core::random_bits).
enum Stream : std::uint32_t { kQ, kK, kV, kBias, kMask, kAlibi, kSink };

constexpr std::string_view kRandom = "random";

using Sizes = std::vector<std::int64_t>;

// ---- Lists of integers ----

bool is_list(const std::string& text) {
  return text.find_first_not_of("0123456789,-+") == text.npos;
}

// "--kv-lengths" of "kv_lengths".
std::string option_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

Array listed_integers(const std::string& name, const std::string& text) {
  const Sizes numbers = parse_integers(option_of(name), text);
  Array array = make_array(DType::kInt64, Sizes{std::int64_t(numbers.size())});
  std::copy(numbers.begin(), numbers.end(), static_cast<std::int64_t*>(array.tensor.data));
  return array;
}

Array integers_of(const std::string& name, const std::string& text) {
  return is_list(text) ? listed_integers(name, text) : read_array(text, name);
}

// ---- Generated data ----

struct Generator {
  std::uint64_t seed;
  Fill fill;

  Array normal(Stream stream, DType dtype, const Sizes& shape, double scale = 1) const {
    if (fill == Fill::kOutlines) return make_outline(dtype, shape);
    Array array = make_array(dtype, shape);
    core::fill_normal(array.tensor, seed, stream, scale);
    return array;
  }

  // Positive where they make few outputs.
  Array values(DType dtype, const Sizes& shape) const {
    Array array = normal(kV, dtype, shape);
    if (fill != Fill::kOutlines && core::makes_few_outputs(array.tensor.shape))
      for_each_index(array.tensor.shape, [&](const core::Index4& i) {
        array.tensor.store(i, std::abs(array.tensor.load(i)));
      });
    return array;
  }

  // Three pairs of four are visible.
  Array mask(const Sizes& shape) const {
    if (fill == Fill::kOutlines) return make_outline(DType::kBool, shape);
    Array array = make_array(DType::kBool, shape);
    auto* pairs = static_cast<std::uint8_t*>(array.tensor.data);
    for (std::int64_t n = 0; n < count(array.tensor); ++n)
      pairs[n] = (core::random_bits(seed, kMask, std::uint64_t(n)).low >> 32) % 4 != 0 ? 1 : 0;
    return array;
  }
};

// Batch rows of k and v: a cache has those that are named, and one for each sequence at least. The
// sequences of a packed side lie in one.
std::int64_t key_rows(const Shape& s, const AttentionOptions& options) {
  if (!options.cu_seqlens_k.empty()) return 1;
  std::int64_t rows = s.batch;
  if (options.cache_batch_idx.empty()) return rows;
  const Array list =
      as_cache_rows("cache_batch_idx", integers_of("cache_batch_idx", options.cache_batch_idx));
  for (std::int64_t b = 0; b < list.tensor.shape[0]; ++b)
    rows = std::max(rows, list.tensor.load_int(b) + 1);
  return rows;
}

Inputs generated(const Shape& s, const AttentionOptions& options, const Generator& make) {
  if (!options.pages.empty())
    refuse(
        "--pages says which pages k and v have, which --shape does not; give files, or "
        "--page-size");
  const DType dtype = options.dtype.value_or(DType::kFloat32);
  const std::int64_t q_rows = options.cu_seqlens_q.empty() ? s.batch : 1;
  const std::int64_t k_rows = key_rows(s, options);
  Inputs in;
  in.q = make.normal(kQ, dtype, {q_rows, s.queries, s.heads, s.dim});
  in.k = make.normal(kK, dtype, {k_rows, s.keys, s.kv_heads, s.dim});
  in.v = make.values(dtype, {k_rows, s.keys, s.kv_heads, s.value_dim});
  return in;
}

// ---- Options that name arrays ----

// A field of Inputs, the option that fills it, and how its array is made fit.
struct Extra {
  const char* name;
  std::string AttentionOptions::* option;
  Array Inputs::* field;
  Array (*fit)(const std::string&, const Array&);
};
const Extra kExtras[] = {
    {"bias", &AttentionOptions::bias, &Inputs::bias, as_bias},
    {"mask", &AttentionOptions::mask, &Inputs::mask, as_mask},
    {"alibi", &AttentionOptions::alibi, &Inputs::alibi,
     [](const std::string& n, const Array& a) { return as_head_numbers(n, a, 2); }},
    {"sink", &AttentionOptions::sink, &Inputs::sink,
     [](const std::string& n, const Array& a) { return as_head_numbers(n, a, 1); }},
    {"kv_lengths", &AttentionOptions::kv_lengths, &Inputs::kv_lengths, as_lengths},
    {"kv_starts", &AttentionOptions::kv_starts, &Inputs::kv_starts, as_lengths},
    {"cache_batch_idx", &AttentionOptions::cache_batch_idx, &Inputs::cache_batch_idx,
     as_cache_rows},
    {"cu_seqlens_q", &AttentionOptions::cu_seqlens_q, &Inputs::cu_seqlens_q, as_boundaries},
    {"cu_seqlens_k", &AttentionOptions::cu_seqlens_k, &Inputs::cu_seqlens_k, as_boundaries},
    {"seqused_q", &AttentionOptions::seqused_q, &Inputs::seqused_q, as_lengths},
    {"seqused_k", &AttentionOptions::seqused_k, &Inputs::seqused_k, as_lengths},
    {"block_table", &AttentionOptions::pages, &Inputs::block_table, as_table},
};

struct Named {
  const char* name;
  Array Inputs::* field;
};
constexpr Named kMain[] = {{"q", &Inputs::q}, {"k", &Inputs::k}, {"v", &Inputs::v}};

bool is_random(std::string_view text) { return text == kRandom || text.starts_with("random:"); }

Array random_extra(const Extra& extra, const std::string& text, const Shape& s,
                   const Generator& make) {
  const std::string_view name = extra.name;
  Sizes shape{s.batch, s.heads, s.queries, s.keys};
  if (name == "alibi" || name == "sink") shape = {s.heads};
  if (text != kRandom)
    shape = parse_integers(fmt::format("--{} random:", name),
                           std::string_view(text).substr(kRandom.size() + 1));
  if (shape.size() > 4)
    refuse(fmt::format("--{} is '{}', of {} dimensions; give at most 4", name, text, shape.size()));
  if (name == "mask") return make.mask(shape);
  if (name == "bias") return make.normal(kBias, DType::kFloat32, shape);
  if (name == "alibi") return make.normal(kAlibi, DType::kFloat32, shape, 0.125);
  return make.normal(kSink, DType::kFloat32, shape);
}

Array extra_array(const Extra& extra, const std::string& text, const Shape& shape,
                  const Generator& make) {
  const bool listed =
      extra.fit == as_lengths || extra.fit == as_boundaries || extra.fit == as_cache_rows;
  if (listed) return integers_of(extra.name, text);
  const bool numbers = extra.fit != as_table;
  if (numbers && is_random(text)) return random_extra(extra, text, shape, make);
  return read_array(text, extra.name);
}

void add_extras(Inputs& in, const AttentionOptions& options, const Generator& make) {
  for (const Extra& extra : kExtras) {
    const std::string& text = options.*extra.option;
    if (text.empty()) continue;
    if ((in.*extra.field).present())
      refuse(fmt::format("{} is given twice, by an option ('{}') and in the input file; drop one",
                         extra.name, text));
    in.*extra.field = extra_array(extra, text, shape_of(in), make);
  }
  for (const Extra& extra : kExtras)
    if (Array& array = in.*extra.field; array.present()) array = extra.fit(extra.name, array);
}

// A state is the out and lse of another call.
void add_state(Inputs& in, const std::string& path) {
  const ArrayFile file(path, "out");
  in.state_out = as_sequence("out", file.get("out"));
  in.state_lse = file.get("lse");
  for (Array* array : {&in.state_out, &in.state_lse}) {
    if (!core::is_float(array->tensor.dtype))
      refuse_type(array == &in.state_out ? "out" : "lse", *array, "a state is of floating type");
    if (array->tensor.dtype != DType::kFloat32) *array = converted(*array, DType::kFloat32);
  }
}

// B of a generated shape beside what the boundaries say.
void check_batch(const Shape& shape, const Inputs& in) {
  for (const auto& [name, array] :
       {std::pair{"cu_seqlens_q", &in.cu_seqlens_q}, std::pair{"cu_seqlens_k", &in.cu_seqlens_k}})
    if (array->present() && array->tensor.shape[0] != shape.batch + 1)
      refuse(
          fmt::format("--shape has {} sequences and {} has {} entries; it must have one more "
                      "than there are sequences",
                      shape.batch, option_of(name), array->tensor.shape[0]));
}

// ---- Files ----

void note_unused(const std::string& path, const Safetensors& file) {
  std::string unused;
  for (const std::string& name : file.names()) {
    bool used = false;
    for (const Named& row : kMain) used = used || name == row.name;
    for (const Extra& row : kExtras) used = used || name == row.name;
    if (!used) unused += (unused.empty() ? "" : ", ") + name;
  }
  if (!unused.empty())
    fmt::print(stderr, "tessera: note: {} also holds {}, which is not used\n", path,
               printable(unused));
}

Inputs from_one_file(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  Inputs in;
  for (const Named& row : kMain) {
    if (!file.has(row.name))
      refuse(fmt::format("{} has no tensor '{}'; it must have q, k and v, and has {}", path,
                         row.name, file.name_list()));
    in.*row.field = file.get(row.name);
  }
  for (const Extra& row : kExtras)
    if (file.has(row.name)) in.*row.field = file.get(row.name);
  note_unused(path, file);
  return in;
}

Inputs from_three_files(const Source& source) {
  Inputs in;
  in.q = read_array(source.q, "q");
  in.k = read_array(source.k, "k");
  in.v = read_array(source.v, "v");
  return in;
}

// The dtype of the call: as asked, else what all three files hold.
DType common_dtype(const Inputs& in, const AttentionOptions& options) {
  if (options.dtype) return *options.dtype;
  for (const Named& row : kMain) {
    const DType dtype = (in.*row.field).tensor.dtype;
    if (dtype != in.q.tensor.dtype)
      refuse(
          fmt::format("q is {} and {} is {}; say with --dtype f32, f16 or bf16 what to convert "
                      "them to",
                      core::name_of(in.q.tensor.dtype), row.name, core::name_of(dtype)));
  }
  return in.q.tensor.dtype == DType::kFloat64 ? DType::kFloat32 : in.q.tensor.dtype;
}

Inputs fitted(Inputs in, const AttentionOptions& options) {
  for (const Named& row : kMain) {
    Array& array = in.*row.field;
    if (!core::is_float(array.tensor.dtype))
      refuse_type(row.name, array, "floating types are accepted: convert it");
    array = as_sequence(row.name, array);
  }
  const DType dtype = common_dtype(in, options);
  for (const Named& row : kMain)
    if (Array& array = in.*row.field; array.tensor.dtype != dtype) array = converted(array, dtype);
  return in;
}

void check_source(const Source& s) {
  const int files = int(!s.q.empty()) + int(!s.k.empty()) + int(!s.v.empty());
  const int ways = int(files > 0) + int(!s.input.empty()) + int(s.shape.has_value());
  if (ways == 0) refuse("there is no input; give --q, --k and --v, or --input, or --shape");
  if (ways > 1) refuse("there are several inputs; give --q, --k and --v, or --input, or --shape");
  if (files == 1 || files == 2) refuse("of --q, --k and --v some are missing; give all three");
}

}  // namespace

Inputs load_inputs(const Source& source, const AttentionOptions& options, Fill fill) {
  check_source(source);
  const Generator make{source.seed, fill};
  Inputs in = source.shape            ? generated(*source.shape, options, make)
              : !source.input.empty() ? fitted(from_one_file(source.input), options)
                                      : fitted(from_three_files(source), options);
  add_extras(in, options, make);
  if (source.shape) check_batch(*source.shape, in);
  if (options.page_size != 0) put_into_pages(in, options.page_size, source.seed, fill);
  if (!options.state_in.empty()) add_state(in, options.state_in);
  return in;
}

Shape shape_of(const Inputs& in) {
  const core::Index4 &q = in.q.tensor.shape, &k = in.k.tensor.shape;
  Shape s{q[0], q[1], k[1], q[2], k[2], q[3], in.v.tensor.shape[3], in.cu_seqlens_q.present()};
  if (s.packed) s.batch = in.cu_seqlens_q.tensor.shape[0] - 1;
  if (in.block_table.present()) s.keys = in.block_table.tensor.shape[1] * k[1];
  if (in.keys_in_pages != 0) s.keys = in.keys_in_pages;
  return s;
}

}  // namespace tessera::tool
