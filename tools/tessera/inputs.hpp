// The arrays of one call, read from files or generated.
#pragma once
#include "tools/tessera/array.hpp"
#include "tools/tessera/options.hpp"

namespace tessera::tool {

// q, k and v are [B, L, H, D]; what the options did not name is absent.
struct Inputs {
  Array q, k, v;
  Array bias, mask;  // [B|1, H|1, Lq|1, Lk|1]
  Array alibi, sink, kv_lengths, kv_starts;
  Array cache_batch_idx;             // k and v are then [rows, Lk, Hk, D]
  Array cu_seqlens_q, cu_seqlens_k;  // k and v, or q, are then [1, rows, H, D]
  Array seqused_q, seqused_k;
  Array block_table;               // k and v are then [pages, page_size, Hk, D]
  Array state_out, state_lse;      // float32
  std::int64_t keys_in_pages = 0;  // Lk, where dense keys were put into pages
};

enum class Fill {
  kData,     // generated elements are N(0, 1) of core/random.hpp
  kOutlines  // generated arrays have no memory behind them (but lengths and tables have)
};

// Refuses what cannot be read or does not fit together; converts q, k and v to options.dtype.
Inputs load_inputs(const Source& source, const AttentionOptions& options, Fill fill = Fill::kData);

// The sizes that q, k, v and the boundaries have: of packed sides, Lq and Lk are all rows.
Shape shape_of(const Inputs& inputs);

}  // namespace tessera::tool
