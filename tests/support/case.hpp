// One attention call as a value: what is needed to make its tensors again, and nothing else.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/array.hpp"
#include "tessera/tessera.h"

namespace tessera::test {

// Which pairs a boolean mask allows.
enum class MaskKind {
  kNone,
  kRandom,   // three pairs of four
  kCausal,   // j <= i
  kPadding,  // the first keys of each batch, another number for each
  kBlocks,   // 96 keys by 32 queries, every second block
  kSparse,   // one pair of sixteen: many blocks without any
};

enum class BiasKind {
  kNone,
  kNormal,
  kHoles,   // one of four is -inf
  kLowest,  // one of four is the lowest finite number of its dtype
};

// Which of the dimensions [batch, head, query, key] a mask or bias distinguishes.
struct Spans {
  std::array<bool, 4> of{true, true, true, true};
  bool by_stride = false;  // the others have their full size and stride 0, rather than size 1
};

// What the backward pass of a case is given and asked for. d_bias and d_sink are wanted only where
// there is a bias and a sink.
struct Pull {
  Layout d_out_layout = Layout::kDense;
  bool d_out_wide = false;  // in float32 whatever the inputs
  bool d_lse = false;
  bool dq = true, dk = true, dv = true, d_bias = true, d_sink = true;
  bool wide = false;         // gradients in float32 whatever the inputs
  bool summed_bias = false;  // d_bias has size 1 where the bias has stride 0
  bool accumulate = false;
  Layout layout = Layout::kDense;  // of dq, dk and dv
};

struct Case {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, dim = 1, value_dim = 1;
  DType dtype = DType::kFloat32;
  std::uint64_t seed = 1;
  Layout q_layout = Layout::kDense, k_layout = Layout::kDense, v_layout = Layout::kDense;
  Layout out_layout = Layout::kDense;

  float scale = NAN, softcap = 0;
  std::int64_t left = TESSERA_UNBOUNDED, right = TESSERA_UNBOUNDED;
  tessera_align align = TESSERA_ALIGN_UNSET;
  std::int64_t offset = 0;
  std::vector<std::int64_t> offsets{};  // one for each batch, with TESSERA_ALIGN_OFFSETS

  MaskKind mask = MaskKind::kNone;
  Spans mask_spans{};
  BiasKind bias = BiasKind::kNone;
  Spans bias_spans{};
  DType bias_dtype = DType::kFloat32;
  bool alibi = false, alibi_by_batch = false;
  bool sink = false;
  std::vector<std::int64_t> kv_lengths{}, kv_starts{};  // one for each batch, or empty
  DType length_dtype = DType::kInt32;
  bool lse = true;
  std::optional<Pull> pull{};  // the case is the backward pass

  // Packed sequences: the boundaries, empty where that side is dense. `batch` counts the sequences,
  // and `queries` and `keys` are at least those of the longest.
  std::vector<std::int64_t> cu_q{}, cu_k{};
  std::vector<std::int64_t> used_q{}, used_k{};  // of each sequence, or empty
  std::int64_t spare_rows = 0;                   // after the last boundary
  std::int64_t page_size = 0;                    // 0: no pages; else the table is random
  std::vector<std::int64_t> cache_rows{};        // the row of k and v of each batch, or empty

  float dropout = 0;
  std::uint64_t dropout_seed = 0;
  std::uint32_t dropout_offset = 0;
  bool state = false;     // starts from a state, in which one row of four is empty
  bool wide_out = false;  // out is float32

  bool bounded() const { return left != TESSERA_UNBOUNDED || right != TESSERA_UNBOUNDED; }
  std::int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  // One sequence in each batch row, wherever q, k and v begin.
  bool dense() const {
    return cu_q.empty() && cu_k.empty() && page_size == 0 && cache_rows.empty();
  }
  DType out_dtype() const { return wide_out && dtype != DType::kFloat64 ? DType::kFloat32 : dtype; }

  // The key on the diagonal of query 0 of a batch, and the queries and keys that exist there.
  std::int64_t diagonal(std::int64_t b) const;
  std::int64_t queries_of(std::int64_t b) const;
  std::int64_t first_key(std::int64_t b) const;
  std::int64_t end_of_keys(std::int64_t b) const;
  // Keys of a batch that there is room for.
  std::int64_t capacity(std::int64_t b) const;

  // How q and k lie: [batch rows, rows, heads, dim].
  Index4 q_shape() const;
  Index4 k_shape() const;
  std::int64_t pages_of_a_sequence() const;
};

// The command line that computes the case again; what it cannot say follows as a comment.
// The texts stand before the command and after its options.
std::string command_line(const Case& c, const std::string& environment = "",
                         const std::string& more = "");

}  // namespace tessera::test
