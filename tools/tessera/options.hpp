// The options that say what attention is computed, shared by run, verify, bench and plan.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.hpp"
#include "tessera/tessera.h"

namespace CLI {
class App;
}

namespace tessera::tool {

struct Window {
  std::int64_t left = TESSERA_UNBOUNDED, right = TESSERA_UNBOUNDED;
};

struct Alignment {
  std::uint32_t kind = TESSERA_ALIGN_UNSET;  // a tessera_align
  std::int64_t offset = 0;                   // with TESSERA_ALIGN_OFFSET
};

struct AttentionOptions {
  bool causal = false;
  std::optional<Window> window;
  Alignment align;
  std::optional<float> scale, softcap;
  std::string bias, mask, alibi, sink;  // a file, "random" or "random:SHAPE"; empty: none
  // Numbers separated by commas, or a file; empty: none.
  std::string kv_lengths, kv_starts, cache_batch_idx;
  std::string cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  std::string pages;           // the file of a table; empty: none
  std::int64_t page_size = 0;  // a random table of pages of so many keys; 0: none
  std::optional<float> dropout;
  std::uint64_t dropout_seed = 0;
  std::uint32_t dropout_offset = 0;
  std::string state_in;              // a .safetensors file of out and lse; empty: none
  std::optional<core::DType> dtype;  // none: that of the files, float32 for generated data
  int threads = 0;                   // 0: TESSERA_THREADS, else the processors there are
  std::uint32_t backend = TESSERA_BACKEND_AUTO;
  std::int64_t splits = 0;  // ranges that the keys are cut into; 0: the call is made whole

  // What --causal and --window amount to. Refuses a window that looks ahead of a causal band.
  Window band() const;
};

// How an option stands in the help text.
struct HelpRow {
  const char *group, *flag, *value, *help;
};

// An option whose value is any text but an empty one.
void add_text_option(CLI::App& verb, const HelpRow& row, std::string& to);

// Declares all of them, in groups of the help text.
void add_attention_options(CLI::App& verb, AttentionOptions& options);

// --splits, for the verbs that can.
void add_splits_option(CLI::App& verb, AttentionOptions& options);

// The sizes of one call.
struct Shape {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, dim = 1, value_dim = 1;
  bool packed = false;  // the queries of all sequences lie in one batch row
};

// "B,Lq,Lk,H,Hk,D,Dv", as parse_shape (parse.hpp) reads it.
std::string to_text(const Shape& shape);

// Where q, k and v come from: three files, one .safetensors file, or a shape and a seed.
struct Source {
  std::string q, k, v, input;
  std::optional<Shape> shape;
  std::uint64_t seed = 0;
};

void add_source_options(CLI::App& verb, Source& source);
// --shape and --seed alone.
void add_shape_options(CLI::App& verb, Source& source);

// "f32", as --dtype spells it, and "cpu", as --backend does.
std::string_view dtype_word(core::DType dtype);
std::string_view backend_word(std::uint32_t backend);

}  // namespace tessera::tool
