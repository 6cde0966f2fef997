// One attention problem after all checks: every option resolved, nothing left to guess.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/band.hpp"
#include "core/philox.hpp"
#include "core/tensor.hpp"

namespace tessera::core {

// One word of Philox4x32-10 for each pair, whatever the tiling.
struct Dropout {
  float p = 0;
  std::uint64_t seed = 0;
  std::uint32_t offset = 0;

  // A pair is kept iff its word is not below this.
  std::uint32_t threshold() const { return std::uint32_t(std::round(double(p) * 0x1p32)); }
  // What a kept pair counts.
  double factor() const { return 1 / (1 - double(p)); }
  // Query i and key j within their sequence; row = b * heads + h.
  bool keeps(std::int64_t row, std::int64_t i, std::int64_t j) const {
    const PhiloxCounter words = philox(
        {std::uint32_t(j / 4), std::uint32_t(i), std::uint32_t(row), offset}, philox_key(seed));
    return words[std::size_t(j % 4)] >= threshold();
  }

  friend bool operator==(const Dropout&, const Dropout&) = default;
};

// Where the queries and keys of one sequence lie. Rows of q and k are counted from `q_begin` and
// `k_begin`; keys outside `keys` do not exist.
struct Sequence {
  std::int64_t q_batch, q_begin, queries;
  std::int64_t k_batch, k_begin;
  Range keys;
  Band band;
  std::int64_t index;  // which sequence of the call
};

// Where one key lies: k and v are read at [batch, row, head].
struct KeyPlace {
  std::int64_t batch, row;
};

enum class Alignment : std::uint32_t { kTopLeft, kBottomRight, kOffset, kOffsets };

// Shapes as in tessera_attention_desc, which says what each field means. Absent tensors have no
// data. alibi is always [B, H] (stride 0 where given once for all), bias and mask have stride 0 in
// dimensions that they do not distinguish, so both are indexed [b, h, i, j].
struct Problem {
  std::int64_t batch = 0;  // of sequences
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t queries = 0, keys = 0;  // of a sequence, dense; rows or slots in memory, else
  std::int64_t dim = 0, value_dim = 0;

  Tensor q, k, v, out, lse;
  double scale = 1;  // that of a float, but for a default with float64
  float softcap = 0;
  std::int64_t left = Band::kUnbounded, right = Band::kUnbounded;
  Alignment alignment = Alignment::kTopLeft;
  std::int64_t offset = 0;
  Tensor offsets;

  Tensor mask, bias, alibi, sink;
  Tensor kv_lengths, kv_starts, cache_batch_idx;
  Tensor cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  Tensor block_table;
  Dropout dropout;
  Tensor state_out, state_lse;
  bool batch_invariant = false;  // the bits of a row depend on its own inputs alone

  bool packed_queries() const { return cu_seqlens_q.present(); }
  bool packed_keys() const { return cu_seqlens_k.present(); }
  bool paged() const { return block_table.present(); }
  // Whether sequences may differ in how many queries or keys they have.
  bool varies() const {
    return packed_queries() || packed_keys() || kv_lengths.present() || kv_starts.present();
  }
  std::int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  std::int64_t kv_head(std::int64_t h) const { return h / group(); }

  // The sequence b; lengths are clamped to what exists, so memory is never harmed.
  Sequence sequence(std::int64_t b) const;
  KeyPlace place(const Sequence& s, std::int64_t b, std::int64_t j) const;
  // Rows of packed queries that are no query: those before sequence b and after the one before it;
  // for b == batch those at the end.
  Range rows_between(std::int64_t b) const;
  // The same of packed keys.
  Range keys_between(std::int64_t b) const;

  friend bool operator==(const Problem&, const Problem&) = default;

 private:
  // The nearest of 0 to `most` (0 if that is negative).
  static std::int64_t within(std::int64_t x, std::int64_t most) {
    return std::max<std::int64_t>(0, std::min(x, most));
  }
  // The rows of sequence b among `rows` packed ones.
  static Range packed_rows(const Tensor& cu_seqlens, std::int64_t b, std::int64_t rows) {
    const std::int64_t begin = within(cu_seqlens.load_int(b), rows);
    return {begin, std::max(begin, within(cu_seqlens.load_int(b + 1), rows))};
  }
};

// ---- The definitions of the above ----

inline Sequence Problem::sequence(std::int64_t b) const {
  Sequence s{b, 0, queries, b, 0, {0, keys}, {left, right, offset}, b};
  if (packed_queries()) {
    const Range rows = packed_rows(cu_seqlens_q, b, queries);
    s.q_batch = 0;
    s.q_begin = rows.begin;
    s.queries = rows.size();
  }
  if (packed_keys()) {
    const Range rows = packed_rows(cu_seqlens_k, b, keys);
    s.k_batch = 0;
    s.k_begin = rows.begin;
    s.keys.end = rows.size();
  }
  if (paged()) s.keys.end = k.shape[0] == 0 ? 0 : block_table.shape[1] * k.shape[1];
  if (cache_batch_idx.present()) s.k_batch = within(cache_batch_idx.load_int(b), k.shape[0] - 1);
  if (seqused_q.present()) s.queries = within(seqused_q.load_int(b), s.queries);
  if (seqused_k.present()) s.keys.end = within(seqused_k.load_int(b), s.keys.end);
  if (kv_lengths.present()) s.keys.end = within(kv_lengths.load_int(b), s.keys.end);
  if (kv_starts.present()) s.keys.begin = within(kv_starts.load_int(b), s.keys.end);
  if (alignment == Alignment::kBottomRight) s.band.offset = s.keys.end - s.queries;
  if (alignment == Alignment::kOffsets) s.band.offset = Band::clamp(offsets.load_int(b));
  return s;
}

inline KeyPlace Problem::place(const Sequence& s, std::int64_t b, std::int64_t j) const {
  if (!paged()) return {s.k_batch, s.k_begin + j};
  const std::int64_t page_size = k.shape[1];
  return {within(block_table.load_int(b, j / page_size), k.shape[0] - 1), j % page_size};
}

inline Range Problem::rows_between(std::int64_t b) const {
  Range rows{0, queries};
  if (b > 0) {
    const Sequence before = sequence(b - 1);
    rows.begin = before.q_begin + before.queries;
  }
  if (b < batch) rows.end = sequence(b).q_begin;
  return rows;
}

inline Range Problem::keys_between(std::int64_t b) const {
  Range rows{0, keys};
  if (b > 0) {
    const Sequence before = sequence(b - 1);
    rows.begin = before.k_begin + before.keys.end;
  }
  if (b < batch) rows.end = sequence(b).k_begin;
  return rows;
}

}  // namespace tessera::core
