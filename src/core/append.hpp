// New keys and values behind those of a cache.
#pragma once
#include <cstdint>

#include "core/problem.hpp"
#include "core/rotary.hpp"

namespace tessera::core {

// Shapes as in tessera_append_desc. Every new key has its place: whoever fills this has checked it.
struct Append {
  Tensor k, v;              // [B, Lnew, Hk, D or Dv]
  Tensor k_cache, v_cache;  // [rows, capacity, Hk, D or Dv], or [pages, page_size, ...]
  Tensor kv_lengths, cache_batch_idx, block_table;
  Rotary rotary;

  // Where key j of sequence b lies.
  KeyPlace place(std::int64_t b, std::int64_t j) const {
    const std::int64_t size = k_cache.shape[1];
    if (block_table.present()) return {block_table.load_int(b, j / size), j % size};
    return {cache_batch_idx.present() ? cache_batch_idx.load_int(b) : b, j};
  }
};

void append(const Append& a);

}  // namespace tessera::core
