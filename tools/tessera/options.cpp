#include "tools/tessera/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/tessera/failure.hpp"
#include "tools/tessera/parse.hpp"

namespace tessera::tool {
namespace {

constexpr const char* kDataGroup = "Input";
constexpr const char* kAttentionGroup = "Attention";
constexpr const char* kMemoryGroup = "Lengths and memory";
constexpr const char* kRunGroup = "Execution";

// An option whose text is parsed (and refused) where it is read.
template <class Parse> void add_parsed(CLI::App& verb, const HelpRow& row, Parse parse) {
  verb.add_option_function<std::string>(row.flag, std::function<void(const std::string&)>(parse),
                                        row.help)
      ->type_name(row.value)
      ->group(row.group);
}

void add_band_options(CLI::App& verb, AttentionOptions& o) {
  verb.add_flag("--causal", o.causal, "Hide the keys after the diagonal")->group(kAttentionGroup);
  add_parsed(
      verb,
      {kAttentionGroup, "--window", "L,R", "Keys visible before and after the diagonal; -1: all"},
      [&o](const std::string& text) { o.window = parse_window(text); });
  add_parsed(verb,
             {kAttentionGroup, "--align", "A",
              "The diagonal of a band: top-left, bottom-right, or the key of query 0"},
             [&o](const std::string& text) { o.align = parse_alignment(text); });
}

void add_score_options(CLI::App& verb, AttentionOptions& o) {
  add_parsed(verb, {kAttentionGroup, "--scale", "X", "Factor of Q K^T; without it 1 / sqrt(D)"},
             [&o](const std::string& text) { o.scale = parse_float("--scale", text); });
  add_parsed(verb, {kAttentionGroup, "--softcap", "X", "Scores become X tanh(score / X); X > 0"},
             [&o](const std::string& text) { o.softcap = parse_softcap(text); });
  add_text_option(verb,
                  {kAttentionGroup, "--bias", "FILE",
                   "Added to the scores, [B|1, H|1, Lq|1, Lk|1]; or random[:SHAPE]"},
                  o.bias);
  add_text_option(verb,
                  {kAttentionGroup, "--mask", "FILE",
                   "True: attend, [B|1, H|1, Lq|1, Lk|1]; or random[:SHAPE]"},
                  o.mask);
  add_text_option(verb,
                  {kAttentionGroup, "--alibi", "FILE",
                   "Slopes of -slope |i - j|, [H] or [B, H]; or random[:SHAPE]"},
                  o.alibi);
  add_text_option(
      verb,
      {kAttentionGroup, "--sink", "FILE", "A logit of each head without a value, [H]; or random"},
      o.sink);
}

void add_packing_options(CLI::App& verb, AttentionOptions& o) {
  add_text_option(verb,
                  {kMemoryGroup, "--cu-seqlens-q", "LIST|FILE",
                   "Packed queries: the first row of each sequence and the end, [B + 1]"},
                  o.cu_seqlens_q);
  add_text_option(
      verb,
      {kMemoryGroup, "--cu-seqlens-k", "LIST|FILE", "Packed keys and values, the same, [B + 1]"},
      o.cu_seqlens_k);
  add_text_option(
      verb,
      {kMemoryGroup, "--seqused-q", "LIST|FILE", "Rows of each packed sequence that are used, [B]"},
      o.seqused_q);
  add_text_option(
      verb,
      {kMemoryGroup, "--seqused-k", "LIST|FILE", "Keys of each packed sequence that are used, [B]"},
      o.seqused_k);
}

void add_memory_options(CLI::App& verb, AttentionOptions& o) {
  add_text_option(verb,
                  {kMemoryGroup, "--kv-lengths", "LIST|FILE",
                   "Keys that exist of each sequence: 5,7 or a file, [B]"},
                  o.kv_lengths);
  add_text_option(verb,
                  {kMemoryGroup, "--kv-starts", "LIST|FILE",
                   "The first key that exists of each sequence (left padding), [B]"},
                  o.kv_starts);
  add_text_option(verb,
                  {kMemoryGroup, "--cache-batch-idx", "LIST|FILE",
                   "The batch row of k and v that each sequence reads, [B]"},
                  o.cache_batch_idx);
  add_packing_options(verb, o);
  add_parsed(
      verb,
      {kMemoryGroup, "--page-size", "P", "Put k and v into pages of P keys, in an order of --seed"},
      [&o](const std::string& text) { o.page_size = parse_page_size(text); });
  add_text_option(verb,
                  {kMemoryGroup, "--pages", "FILE",
                   "k and v are pages [N, P, Hk, D]: the page of keys n P on, [B, max]"},
                  o.pages);
}

void add_state_options(CLI::App& verb, AttentionOptions& o) {
  add_parsed(verb,
             {kAttentionGroup, "--dropout", "P", "Drop pairs with this probability, 0 <= P < 1"},
             [&o](const std::string& text) { o.dropout = parse_float("--dropout", text); });
  add_parsed(
      verb, {kAttentionGroup, "--dropout-seed", "N", "Which pairs; without it 0"},
      [&o](const std::string& text) { o.dropout_seed = parse_unsigned("--dropout-seed", text); });
  add_parsed(verb,
             {kAttentionGroup, "--dropout-offset", "N", "Others of the same seed; without it 0"},
             [&o](const std::string& text) { o.dropout_offset = parse_dropout_offset(text); });
  add_text_option(
      verb,
      {kAttentionGroup, "--state-in", "FILE", "Start from the out and lse of a .safetensors file"},
      o.state_in);
}

void add_execution_options(CLI::App& verb, AttentionOptions& o) {
  add_parsed(
      verb,
      {kRunGroup, "--dtype", "T", "Convert q, k, v to f32, f16 or bf16; without it as they are"},
      [&o](const std::string& text) { o.dtype = parse_dtype(text); });
  add_parsed(verb, {kRunGroup, "--threads", "N", "Threads, >= 1; without it all processors"},
             [&o](const std::string& text) { o.threads = parse_threads(text); });
  add_parsed(verb,
             {kRunGroup, "--backend", "B",
              "auto (the default), cpu, reference, standard, cuda or emulator"},
             [&o](const std::string& text) { o.backend = parse_backend(text); });
}

}  // namespace

void add_text_option(CLI::App& verb, const HelpRow& row, std::string& to) {
  add_parsed(verb, row, [&to, flag = row.flag](const std::string& text) {
    if (text.empty()) refuse(fmt::format("{} is empty; give it a value or leave it out", flag));
    to = text;
  });
}

void add_attention_options(CLI::App& verb, AttentionOptions& options) {
  add_band_options(verb, options);
  add_score_options(verb, options);
  add_state_options(verb, options);
  add_memory_options(verb, options);
  add_execution_options(verb, options);
}

void add_splits_option(CLI::App& verb, AttentionOptions& options) {
  add_parsed(verb,
             {kRunGroup, "--splits", "N", "Cut the keys into N ranges, a call each; merge states"},
             [&options](const std::string& text) { options.splits = parse_splits(text); });
}

void add_shape_options(CLI::App& verb, Source& source) {
  add_parsed(
      verb,
      {kDataGroup, "--shape", "B,Lq,Lk,H,Hk,D,Dv", "Generate q, k and v of these sizes, N(0, 1)"},
      [&source](const std::string& text) { source.shape = parse_shape(text); });
  add_parsed(verb, {kDataGroup, "--seed", "N", "Seed of generated data; without it 0"},
             [&source](const std::string& text) { source.seed = parse_seed(text); });
}

void add_source_options(CLI::App& verb, Source& source) {
  add_text_option(verb, {kDataGroup, "--q", "FILE", "Queries, [B, Lq, H, D], .npy or .safetensors"},
                  source.q);
  add_text_option(verb, {kDataGroup, "--k", "FILE", "Keys, [B, Lk, Hk, D]"}, source.k);
  add_text_option(verb, {kDataGroup, "--v", "FILE", "Values, [B, Lk, Hk, Dv]"}, source.v);
  add_text_option(verb,
                  {kDataGroup, "--input", "FILE",
                   "A .safetensors file with q, k, v and, by their names, options"},
                  source.input);
  add_shape_options(verb, source);
}

}  // namespace tessera::tool
