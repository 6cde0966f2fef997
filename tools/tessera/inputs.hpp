// The arrays of one call, read from files or generated.
#pragma once
#include "tools/tessera/array.hpp"
#include "tools/tessera/options.hpp"

namespace tessera::tool {

// q, k and v are [B, L, H, D]; what the options did not name is absent.
struct Inputs {
  Array q, k, v;
  Array bias, mask;  // [B|1, H|1, Lq|1, Lk|1]
  Array alibi, sink, kv_lengths;
};

enum class Fill {
  kData,     // generated elements are N(0, 1) of core/random.hpp
  kOutlines  // generated arrays have no memory behind them (but kv_lengths have)
};

// Refuses what cannot be read or does not fit together; converts q, k and v to options.dtype.
Inputs load_inputs(const Source& source, const AttentionOptions& options, Fill fill = Fill::kData);

// The shape that q, k and v have.
Shape shape_of(const Inputs& inputs);

}  // namespace tessera::tool
