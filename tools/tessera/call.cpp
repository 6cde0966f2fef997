#include "tools/tessera/call.hpp"

#include <fmt/format.h>

#include <array>

#include "tools/tessera/bench_pairs.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/gpu.hpp"

namespace tessera::tool {
namespace {

ExitCode exit_code_of(tessera_status status) {
  if (status == TESSERA_INVALID_ARGUMENT) return kBadInput;
  return status == TESSERA_INTERNAL ? kWrong : kNotSupported;
}

tessera_tensor tensor_of(const Array& array) {
  return array.present() ? to_c(array.tensor) : tessera_tensor_default();
}

// True if every sequence has as many keys as queries, so that all alignments are one.
bool is_square(const Inputs& in, const AttentionOptions& options) {
  const core::Problem p = outline(in, options);
  if (!p.varies()) return p.queries == p.keys;
  for (std::int64_t b = 0; b < p.batch; ++b)
    if (const core::Sequence s = p.sequence(b); s.keys.end != s.queries) return false;
  return true;
}

// The library refuses this too, in the words of its own interface.
void check_alignment(const Inputs& in, const AttentionOptions& options) {
  const Window band = options.band();
  const bool bounded = band.left != TESSERA_UNBOUNDED || band.right != TESSERA_UNBOUNDED;
  if (options.align.kind != TESSERA_ALIGN_UNSET || is_square(in, options)) return;
  if (bounded || in.alibi.present())
    refuse(
        fmt::format("--causal, --window and --alibi count from a diagonal, and with {} queries "
                    "and {} keys (or other lengths) it must be named; give --align top-left, "
                    "bottom-right, or the key of query 0",
                    shape_of(in).queries, shape_of(in).keys));
}

}  // namespace

void check(tessera_status status, const tessera_error& error) {
  if (status != TESSERA_OK) throw Failure(exit_code_of(status), error.message);
}

Context make_context(int threads) {
  tessera_context_config config = tessera_context_config_default();
  config.threads = threads;
  tessera_error error = tessera_error_default();
  tessera_context* context = nullptr;
  check(tessera_context_create(&config, &context, &error), error);
  return Context(context);
}

tessera_attention_desc describe(const Inputs& in, const AttentionOptions& options) {
  check_alignment(in, options);
  tessera_attention_desc desc = tessera_attention_desc_default();
  const Window band = options.band();
  desc.backend = options.backend;
  desc.align = options.align.kind;
  desc.offset = options.align.offset;
  desc.left = band.left;
  desc.right = band.right;
  desc.scale = options.scale.value_or(desc.scale);
  desc.softcap = options.softcap.value_or(desc.softcap);
  desc.q = tensor_of(in.q);
  desc.k = tensor_of(in.k);
  desc.v = tensor_of(in.v);
  desc.bias = tensor_of(in.bias);
  desc.mask = tensor_of(in.mask);
  desc.alibi = tensor_of(in.alibi);
  desc.sink = tensor_of(in.sink);
  desc.kv_lengths = tensor_of(in.kv_lengths);
  desc.kv_starts = tensor_of(in.kv_starts);
  desc.cache_batch_idx = tensor_of(in.cache_batch_idx);
  desc.cu_seqlens_q = tensor_of(in.cu_seqlens_q);
  desc.cu_seqlens_k = tensor_of(in.cu_seqlens_k);
  desc.seqused_q = tensor_of(in.seqused_q);
  desc.seqused_k = tensor_of(in.seqused_k);
  desc.block_table = tensor_of(in.block_table);
  desc.dropout_p = options.dropout.value_or(0);
  desc.dropout_seed = options.dropout_seed;
  desc.dropout_offset = options.dropout_offset;
  desc.state_out = tensor_of(in.state_out);
  desc.state_lse = tensor_of(in.state_lse);
  return desc;
}

Results make_results(const Shape& s, core::DType dtype, Fill fill) {
  const auto make = fill == Fill::kData ? make_array : make_outline;
  const bool wide = dtype == core::DType::kFloat64;
  const std::int64_t rows = s.packed ? 1 : s.batch;
  const std::array out{rows, s.queries, s.heads, s.value_dim};
  const std::array lse{rows, s.heads, s.queries};
  return {make(dtype, out), make(wide ? dtype : core::DType::kFloat32, lse)};
}

void attend(const Context& context, tessera_attention_desc desc, const Results& results) {
  desc.out = tensor_of(results.out);
  desc.lse = tensor_of(results.lse);
  const OnGpu there(desc);
  tessera_error error = tessera_error_default();
  check(tessera_attention(context.get(), &desc, &error), error);
  there.fetch();
}

std::string text_of(const Write& write) {
  tessera_error error = tessera_error_default();
  std::uint64_t needed = 0;
  check(write(nullptr, 0, &needed, &error), error);
  std::string text(std::size_t(needed), '\0');
  check(write(text.data(), needed, &needed, &error), error);
  text.resize(text.find('\0'));
  return text;
}

std::string plan_json(const Context& context, const tessera_attention_desc& call) {
  tessera_attention_desc desc = call;
  place(desc);
  return text_of(
      [&](char* buffer, std::uint64_t capacity, std::uint64_t* needed, tessera_error* error) {
        return tessera_plan_describe(context.get(), &desc, buffer, capacity, needed, error);
      });
}

std::string gpus_json() { return text_of(tessera_gpus_describe); }

std::string context_json(const Context& context) {
  return text_of(
      [&](char* buffer, std::uint64_t capacity, std::uint64_t* needed, tessera_error* error) {
        return tessera_context_describe(context.get(), buffer, capacity, needed, error);
      });
}

}  // namespace tessera::tool
