// The tensors of a case, and the call that they make.
#pragma once
#include <cstdint>
#include <string>

#include "support/array.hpp"
#include "support/case.hpp"
#include "tessera/tessera.h"

namespace tessera::test {

// Where a query or a key lies: at [batch, row] of its tensor.
struct Place {
  std::int64_t batch, row;
};

struct Inputs {
  Case of;
  Array q, k, v;
  Array mask, bias, alibi, sink, kv_lengths, kv_starts, offsets;
  Array cu_q, cu_k, used_q, used_k, table, cache_rows;
  Array state_out, state_lse;

  // N(0, 1) by core::normal, as `tessera verify --seed` makes them; v is positive where it makes
  // few outputs.
  explicit Inputs(const Case& c);

  // Steps 4 and 5 of the contract, stated a second time: is key j visible to query i?
  bool sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;
  double bias_at(const Index4& pair) const;  // [b, h, i, j]
  bool row_is_empty(std::int64_t b, std::int64_t h, std::int64_t i) const;
  // Whether dropout keeps the pair [b, h, i, j].
  bool keeps(const Index4& pair) const;
  Place query_at(std::int64_t b, std::int64_t i) const;
  Place key_at(std::int64_t b, std::int64_t j) const;
  // Does any query of any head that reads key head `kh` see key j?
  bool seen_by_any(std::int64_t b, std::int64_t kh, std::int64_t j) const;

  // The same numbers with q, k and v in another dtype (exact if it is wider).
  Inputs in(DType dtype) const;

  // NaN into everything that no row can see: keys and values, values that dropout removes from
  // every row, entries of mask and bias that something else hides, rows of q that are no query, and
  // rows of an empty state. Entries of the table that no key needs become wild.
  Inputs with_unseen_memory_poisoned() const;
};

struct Outputs {
  Array out, lse;
  double score_max = 0;  // by the reference alone
  tessera_status status = TESSERA_OK;
  std::string message;

  explicit Outputs(const Case& c);
};

// What arrives from above, N(0, 1), as `tessera verify --backward --seed` makes it.
struct Upstream {
  Array d_out, d_lse;

  explicit Upstream(const Case& c);
};

// The descriptor of a call; it points into both arguments.
tessera_attention_desc describe(const Inputs& inputs, const Outputs& outputs);

}  // namespace tessera::test
