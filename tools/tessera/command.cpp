#include "tools/tessera/command.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace tessera::tool {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
}

std::string side_text(std::int64_t n) { return n == TESSERA_UNBOUNDED ? "-1" : std::to_string(n); }

std::string align_text(const Alignment& align) {
  if (align.kind == TESSERA_ALIGN_TOP_LEFT) return "top-left";
  if (align.kind == TESSERA_ALIGN_BOTTOM_RIGHT) return "bottom-right";
  return std::to_string(align.offset);
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  bool plain = !word.empty();
  for (const char c : word) plain = plain && is_plain(c);
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Command::Command(std::string_view verb) {
  for (const char* name : {"TESSERA_CPU", "TESSERA_THREADS"})
    if (const char* value = std::getenv(name))
      text_ += fmt::format("{}={} ", name, shell_quoted(value));
  text_ += fmt::format("tessera {}", verb);
}

Command& Command::add(std::string_view word) {
  text_ += " " + shell_quoted(word);
  return *this;
}

Command& Command::add(std::string_view option, std::string_view value) {
  if (!value.empty()) add(option).add(value);
  return *this;
}

Command& Command::add(const Source& source) {
  if (source.shape) add("--shape", to_text(*source.shape));
  add("--q", source.q).add("--k", source.k).add("--v", source.v).add("--input", source.input);
  if (source.shape || source.seed != 0) add("--seed", std::to_string(source.seed));
  return *this;
}

Command& Command::add(const AttentionOptions& o) {
  if (o.causal) add("--causal");
  if (o.window)
    add("--window", fmt::format("{},{}", side_text(o.window->left), side_text(o.window->right)));
  if (o.align.kind != TESSERA_ALIGN_UNSET) add("--align", align_text(o.align));
  if (o.scale) add("--scale", fmt::format("{}", *o.scale));
  if (o.softcap) add("--softcap", fmt::format("{}", *o.softcap));
  add("--bias", o.bias).add("--mask", o.mask).add("--alibi", o.alibi).add("--sink", o.sink);
  if (o.dropout) add("--dropout", fmt::format("{}", *o.dropout));
  if (o.dropout_seed != 0) add("--dropout-seed", std::to_string(o.dropout_seed));
  if (o.dropout_offset != 0) add("--dropout-offset", std::to_string(o.dropout_offset));
  add("--state-in", o.state_in).add("--kv-lengths", o.kv_lengths).add("--kv-starts", o.kv_starts);
  add("--cache-batch-idx", o.cache_batch_idx);
  add("--cu-seqlens-q", o.cu_seqlens_q).add("--cu-seqlens-k", o.cu_seqlens_k);
  add("--seqused-q", o.seqused_q).add("--seqused-k", o.seqused_k);
  if (o.page_size != 0) add("--page-size", std::to_string(o.page_size));
  add("--pages", o.pages);
  if (o.dtype) add("--dtype", dtype_word(*o.dtype));
  if (o.splits > 0) add("--splits", std::to_string(o.splits));
  if (o.threads > 0) add("--threads", std::to_string(o.threads));
  return add("--backend", backend_word(o.backend));
}

}  // namespace tessera::tool
