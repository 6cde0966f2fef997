// Sizes and dtypes of the tensors against each other.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "api/convert_parts.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::DType;
using core::Index4;
using core::Problem;
using core::Tensor;

// What each letter stands for in this call.
struct Sizes {
  std::array<std::int64_t, std::size_t(Letter::kCount)> values{};
  std::string_view query_rows = "B", key_rows = "B";  // the names of Bq and Bk

  std::int64_t& operator[](Letter letter) { return values[std::size_t(letter)]; }
  std::int64_t operator[](Letter letter) const { return values[std::size_t(letter)]; }

  std::string_view name(Letter letter) const {
    if (letter == Letter::kBq) return query_rows;
    if (letter == Letter::kBk) return key_rows;
    return kLetterNames[std::size_t(letter)];
  }
};

// Where q, k and v disagree with each other, their own values are found wrong below.
Sizes sizes_of(const Desc& desc, const Problem& p) {
  const bool packed_q = given(desc.cu_seqlens_q), packed_k = given(desc.cu_seqlens_k);
  const bool free_k = given(desc.block_table) || given(desc.cache_batch_idx);
  Sizes s;
  s[Letter::kB] = packed_q ? p.cu_seqlens_q.shape[0] - 1 : p.q.shape[0];
  s[Letter::kBq] = packed_q ? 1 : s[Letter::kB];
  s[Letter::kBk] = packed_k ? 1 : free_k ? p.k.shape[0] : s[Letter::kB];
  s[Letter::kLq] = p.q.shape[1];
  s[Letter::kH] = p.q.shape[2];
  s[Letter::kD] = p.q.shape[3];
  s[Letter::kLk] = p.k.shape[1];
  s[Letter::kHk] = p.k.shape[2];
  s[Letter::kDv] = p.v.shape[3];
  s[Letter::kOne] = 1;
  s.query_rows = packed_q ? "1" : "B";
  s.key_rows = packed_k ? "1" : free_k ? "any" : "B";
  return s;
}

[[noreturn]] void refuse_shape(const Field& field, const Index4& shape, const Sizes& sizes) {
  int rank = 4;
  while (field.letters[std::size_t(rank - 1)] == Letter::kOne) --rank;
  std::string names;
  Index4 wanted{};
  for (std::size_t d = 0; d < std::size_t(rank); ++d) {
    const Letter letter = field.letters[d];
    names.append(d == 0 ? "[" : ", ").append(sizes.name(letter));
    wanted[d] = letter == Letter::kFree ? shape[d] : sizes[letter];
  }
  refuse(Sentence::kShape, {field.name, Shape{shape, rank_of(shape, rank)}, Shape{wanted, rank},
                            std::string_view(names.append("]"))});
}

void check_letters(const Field& field, const Tensor& t, const Sizes& sizes) {
  for (std::size_t d = 0; d < 4; ++d) {
    const Letter letter = field.letters[d];
    if (letter != Letter::kFree && t.shape[d] != sizes[letter]) [[unlikely]]
      refuse_shape(field, t.shape, sizes);
  }
}

// Boundaries have one dimension and at least one entry; B follows from those of q.
void check_boundaries(const Desc& desc, const Problem& p) {
  for (const Field& field : fields()) {
    if (field.rule != Rule::kBoundaries || !given(desc.*field.given)) continue;
    const Index4& shape = (p.*field.tensor).shape;
    const bool one_dimension = shape[1] == 1 && shape[2] == 1 && shape[3] == 1;
    require(shape[0] >= 1 && one_dimension, Sentence::kBoundariesShape, field.name,
            Shape{shape, rank_of(shape, 1)});
  }
}

void check_entries(const Field& field, const Tensor& t, const Sizes& sizes) {
  const std::int64_t entries = sizes[Letter::kB] + 1;
  require(t.shape[0] == entries, Sentence::kShape, field.name, Shape{t.shape, 1},
          Shape{{entries}, 1}, std::string_view("[B + 1]"));
}

// Slopes given once for all batches get stride 0 in B.
void convert_alibi(Tensor& t, const Sizes& sizes) {
  const std::int64_t batch = sizes[Letter::kB], heads = sizes[Letter::kH];
  const bool once = t.shape == Index4{heads, 1, 1, 1};
  require(once || t.shape == Index4{batch, heads, 1, 1}, Sentence::kAlibiShape,
          Shape{t.shape, rank_of(t.shape, 1)}, Shape{{heads}, 1}, Shape{{batch, heads}, 2});
  if (!once) return;
  t.shape = {batch, heads, 1, 1};
  t.stride = {0, t.stride[0], 0, 1};
}

void check_shape(const Field& field, Tensor& t, const Sizes& sizes) {
  switch (field.rule) {
    case Rule::kLetters: return check_letters(field, t, sizes);
    case Rule::kBoundaries: return check_entries(field, t, sizes);
    case Rule::kAlibi: return convert_alibi(t, sizes);
    case Rule::kBroadcast: return;  // once the lengths are known to be sound
  }
}

// One option that has no meaning without another, or beside it.
struct Pair {
  std::string_view name, other_name;
  tessera_tensor Desc::* tensor;
  tessera_tensor Desc::* other;
};

constexpr Pair kNeeds[] = {
    {"seqused_q", "cu_seqlens_q", &Desc::seqused_q, &Desc::cu_seqlens_q},
    {"seqused_k", "cu_seqlens_k", &Desc::seqused_k, &Desc::cu_seqlens_k},
    {"block_table", "kv_lengths", &Desc::block_table, &Desc::kv_lengths},
    {"state_out", "state_lse", &Desc::state_out, &Desc::state_lse},
    {"state_lse", "state_out", &Desc::state_lse, &Desc::state_out},
};
constexpr Pair kExcludes[] = {
    {"block_table", "cu_seqlens_k", &Desc::block_table, &Desc::cu_seqlens_k},
    {"block_table", "cache_batch_idx", &Desc::block_table, &Desc::cache_batch_idx},
    {"cu_seqlens_k", "cache_batch_idx", &Desc::cu_seqlens_k, &Desc::cache_batch_idx},
};

void check_company(const Desc& desc) {
  for (const Pair& pair : kNeeds)
    require(!given(desc.*pair.tensor) || given(desc.*pair.other), Sentence::kNeeds, pair.name,
            pair.other_name);
  for (const Pair& pair : kExcludes)
    require(!given(desc.*pair.tensor) || !given(desc.*pair.other), Sentence::kTogether, pair.name,
            pair.other_name);
}

void check_dtypes(const Problem& p) {
  const auto same_as_q = [&](std::string_view name, const Tensor& t) {
    require(t.dtype == p.q.dtype, Sentence::kMixedDtype, name, core::name_of(t.dtype),
            core::name_of(p.q.dtype), name);
  };
  same_as_q("k", p.k);
  same_as_q("v", p.v);
  require(p.out.dtype == p.q.dtype || p.out.dtype == DType::kFloat32, Sentence::kOutDtype,
          core::name_of(p.out.dtype), core::name_of(p.q.dtype));
  require(p.lse.dtype != DType::kFloat64 || p.q.dtype == DType::kFloat64, Sentence::kDtype,
          std::string_view("lse"), core::name_of(p.lse.dtype), types_of(TypeSet::kLse).words);
}

void check_heads(const Problem& p) {
  const std::int64_t heads = p.q.shape[2], kv_heads = p.k.shape[2];
  require((heads == 0) == (kv_heads == 0), Sentence::kNoHeads, heads, kv_heads);
  require(heads == 0 || heads % kv_heads == 0, Sentence::kHeads, heads, kv_heads);
  require(p.q.shape[3] >= 1, Sentence::kNoDim, std::string_view("q"), Shape{p.q.shape});
  require(p.v.shape[3] >= 1, Sentence::kNoDim, std::string_view("v"), Shape{p.v.shape});
}

// a * b, or the largest number there is; neither is negative.
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// The keys that a sequence has room for, in pages.
std::int64_t paged_capacity(const Problem& p) {
  const std::int64_t pages = p.block_table.shape[1], page_size = p.k.shape[1];
  require(page_size >= 1, Sentence::kNoPage, Shape{p.k.shape});
  const std::int64_t keys = saturating_product(pages, page_size);
  require(keys <= std::int64_t{1} << 48, Sentence::kCapacity, pages, page_size);
  return keys;
}

// Low enough that the bytes of a stored matrix, rounded up to tiles, stay within 64 bits.
void check_amount(const Problem& p) {
  const auto at_least_1 = [](std::int64_t x) { return std::max<std::int64_t>(1, x); };
  const std::int64_t rows = saturating_product(
      saturating_product(at_least_1(p.batch), at_least_1(p.heads)), at_least_1(p.queries));
  const std::int64_t scores = saturating_product(rows, at_least_1(p.keys));
  require(p.batch <= std::int64_t{1} << 31 && rows <= std::int64_t{1} << 48 &&
              scores <= std::int64_t{1} << 56,
          Sentence::kLargeCall, p.batch, p.heads, p.queries, p.keys);
}

}  // namespace

int rank_of(const Index4& shape, int least) {
  int rank = 4;
  while (rank > least && shape[std::size_t(rank - 1)] == 1) --rank;
  return rank;
}

void convert_shapes(const Desc& desc, Problem& p) {
  check_company(desc);
  check_dtypes(p);
  check_boundaries(desc, p);
  const Sizes sizes = sizes_of(desc, p);
  for (const Field& field : fields())
    if (given(desc.*field.given) || field.types == TypeSet::kFloats)
      check_shape(field, p.*field.tensor, sizes);
  check_heads(p);
  p.batch = sizes[Letter::kB];
  p.heads = sizes[Letter::kH];
  p.kv_heads = sizes[Letter::kHk];
  p.queries = sizes[Letter::kLq];
  p.keys = given(desc.block_table) ? paged_capacity(p) : sizes[Letter::kLk];
  p.dim = sizes[Letter::kD];
  p.value_dim = sizes[Letter::kDv];
  check_amount(p);
  if (!std::isnan(p.scale)) return;
  p.scale = 1 / std::sqrt(double(p.dim));
  if (p.q.dtype != core::DType::kFloat64) p.scale = float(p.scale);
}

}  // namespace tessera::api
