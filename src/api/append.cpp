// tessera_append: its checks. All of them pass before the cache changes.
#include "core/append.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "api/convert_parts.hpp"
#include "api/door.hpp"
#include "api/guard.hpp"
#include "api/tensors.hpp"
#include "api/versioned.hpp"

namespace tessera::api {
namespace {

using core::Append;
using core::Index4;

constexpr Versioned<tessera_append_desc> kAppendDesc{"desc", "tessera_append_desc", 952,
                                                     tessera_append_desc_default};

std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// ---- Tensors against each other ----

void check_new(const NamedTensor& k, const NamedTensor& v) {
  const Index4& shape = k.tensor.shape;
  require_dim(k);
  require_dim(v);
  require_same_dtype(v, k);
  require_shape(v,
                {{shape[0], shape[1], shape[2], v.tensor.shape[3]}, 4, "[B, Lnew, Hk, Dv]", "k"});
}

// `any_rows`: the rows of the cache are not one for each sequence.
void check_cache(const NamedTensor& cache, const NamedTensor& fresh, const NamedTensor& k_cache,
                 bool any_rows) {
  const Index4 &shape = k_cache.tensor.shape, &row = fresh.tensor.shape;
  require_same_dtype(cache, fresh);
  require_shape(cache,
                {{any_rows ? shape[0] : row[0], shape[1], row[2], row[3]},
                 4,
                 any_rows ? "[rows or pages, size, Hk, D or Dv]" : "[B, capacity, Hk, D or Dv]",
                 fresh.name});
}

// ---- What the arrays of integers hold ----

// A table without a page is given, but has no data.
std::int64_t capacity_of(const Append& a) {
  const std::int64_t size = a.k_cache.shape[1];
  if (!a.block_table.present()) return a.block_table.empty() ? 0 : size;
  const std::int64_t pages = a.block_table.shape[1], capacity = saturating_product(pages, size);
  require(capacity <= std::int64_t{1} << 48, Sentence::kCapacity, pages, size);
  return capacity;
}

void check_capacity(const Append& a) {
  const std::int64_t batch = a.k.shape[0], fresh = a.k.shape[1], capacity = capacity_of(a);
  const std::int64_t places = a.k_cache.shape[0] * a.k_cache.shape[1];
  require(saturating_product(batch, fresh) <= places, Sentence::kCacheSmall, batch, fresh, places);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t keys = a.kv_lengths.load_int(b);
    require(keys >= 0 && keys <= capacity, Sentence::kLengthRange, std::string_view("kv_lengths"),
            b, keys, capacity);
    require(fresh <= capacity - keys, Sentence::kCacheFull, b, keys, fresh, capacity);
  }
}

void check_rows(const Append& a) {
  const std::int64_t rows = a.k_cache.shape[0], size = a.k_cache.shape[1];
  for (std::int64_t b = 0; b < a.k.shape[0]; ++b) {
    if (a.cache_batch_idx.present()) {
      const std::int64_t row = a.cache_batch_idx.load_int(b);
      require(row >= 0 && row < rows, Sentence::kRowRange, b, row, rows);
    }
    if (!a.block_table.present()) continue;
    const std::int64_t first = a.kv_lengths.load_int(b), last = first + a.k.shape[1] - 1;
    for (std::int64_t i = first / size; i <= last / size; ++i) {
      const std::int64_t page = a.block_table.load_int(b, i);
      require(page >= 0 && page < rows, Sentence::kNewKeyPage, b, i, page, rows);
    }
  }
}

// New keys of one sequence in one row or page of the cache.
struct Stretch {
  std::int64_t row, begin, end, sequence;

  friend bool operator<(const Stretch& a, const Stretch& b) {
    return std::tie(a.row, a.begin) < std::tie(b.row, b.begin);
  }
};

void check_no_place_twice(const Append& a) {
  std::vector<Stretch> all;
  const std::int64_t size = a.k_cache.shape[1];
  for (std::int64_t b = 0; b < a.k.shape[0]; ++b) {
    const std::int64_t first = a.kv_lengths.load_int(b), end = first + a.k.shape[1];
    for (std::int64_t j = first, n = 0; j < end; j += n) {
      const core::KeyPlace at = a.place(b, j);
      n = std::min(end - j, size - at.row);
      all.push_back({at.batch, at.row, at.row + n, b});
    }
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 1; i < all.size(); ++i)
    require(all[i - 1].row != all[i].row || all[i - 1].end <= all[i].begin, Sentence::kSamePlace,
            all[i - 1].sequence, all[i].sequence, all[i].row, all[i].begin);
}

void check_positions(const Append& a) {
  if (!a.rotary.present()) return;
  const std::int64_t positions = a.rotary.positions(), last = a.k.shape[1] - 1;
  for (std::int64_t b = 0; b < a.k.shape[0]; ++b) {
    const std::int64_t position = a.kv_lengths.load_int(b) + last;
    require(position < positions, Sentence::kPositionRange, last, b, position, positions);
  }
}

// ---- The call ----

Append convert_append(const tessera_append_desc& desc) {
  const NamedTensor k = read_tensor("k", desc.k, TypeSet::kBias);
  const NamedTensor v = read_tensor("v", desc.v, TypeSet::kBias);
  check_new(k, v);
  const NamedTensor caches[] = {read_output("k_cache", desc.k_cache, TypeSet::kBias),
                                read_output("v_cache", desc.v_cache, TypeSet::kBias)};
  const bool paged = given(desc.block_table), indexed = given(desc.cache_batch_idx);
  require(!paged || !indexed, Sentence::kTogether, std::string_view("block_table"),
          std::string_view("cache_batch_idx"));
  check_cache(caches[0], k, caches[0], paged || indexed);
  check_cache(caches[1], v, caches[0], paged || indexed);
  const NamedTensor lengths = read_tensor("kv_lengths", desc.kv_lengths, TypeSet::kLengths);
  const NamedTensor rows = read_optional("cache_batch_idx", desc.cache_batch_idx, TypeSet::kInt32);
  const NamedTensor table = read_optional("block_table", desc.block_table, TypeSet::kInt32);
  const std::int64_t batch = k.tensor.shape[0];
  require_shape(lengths, {{batch, 1, 1, 1}, 1, "[B]", "k"});
  if (indexed) require_shape(rows, {{batch, 1, 1, 1}, 1, "[B]", "k"});
  if (paged) require_shape(table, {{batch, table.tensor.shape[1], 1, 1}, 2, "[B, max_pages]", "k"});
  const core::Rotary rotary = read_rotary(desc.layout, desc.cos, desc.sin, k);
  const NamedTensor read[] = {k, v, lengths, rows, table, {"cos", rotary.cos}, {"sin", rotary.sin}};
  require_apart(caches, read);
  return {k.tensor,       v.tensor,    caches[0].tensor, caches[1].tensor,
          lengths.tensor, rows.tensor, table.tensor,     rotary};
}

void append(const tessera_append_desc& desc) {
  require_zero(kAppendDesc.type, desc.flags, desc.reserved);
  const Append a = convert_append(desc);
  if (a.k.empty()) return;
  check_capacity(a);
  check_rows(a);
  check_no_place_twice(a);
  check_positions(a);
  core::append(a);
}

}  // namespace
}  // namespace tessera::api

tessera_status tessera_append(tessera_context* context, const tessera_append_desc* desc,
                              tessera_error* error) {
  using namespace tessera::api;
  return guard(error, [&] {
    tessera_append_desc ours;
    require_context(context);
    append(read_versioned(kAppendDesc, desc, ours));
  });
}
