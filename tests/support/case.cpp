#include "support/case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace tessera::test {

namespace {

std::string_view short_name(DType t) {
  for (const core::DTypeRow& row : core::kDTypes)
    if (row.dtype == t) return row.short_name;
  return "unknown";
}

std::string bound_text(std::int64_t x) { return x == TESSERA_UNBOUNDED ? "-1" : std::to_string(x); }

std::string band_options(const Case& c) {
  std::string s;
  if (c.bounded()) s += fmt::format(" --window {},{}", bound_text(c.left), bound_text(c.right));
  if (c.align == TESSERA_ALIGN_TOP_LEFT) s += " --align top-left";
  if (c.align == TESSERA_ALIGN_BOTTOM_RIGHT) s += " --align bottom-right";
  if (c.align == TESSERA_ALIGN_OFFSET) s += fmt::format(" --align {}", c.offset);
  return s;
}

// The sizes of a mask or bias: 1 where a dimension is not distinguished.
std::string random_of(const Case& c, const Spans& s) {
  const std::int64_t full[] = {c.batch, c.heads, c.queries, c.keys};
  std::string text;
  for (std::size_t n = 0; n < 4; ++n)
    text += fmt::format("{}{}", n == 0 ? "random:" : ",", s.of[n] ? full[n] : 1);
  return text;
}

std::string array_options(const Case& c) {
  std::string s;
  if (c.mask == MaskKind::kRandom) s += " --mask " + random_of(c, c.mask_spans);
  if (c.bias == BiasKind::kNormal) s += " --bias " + random_of(c, c.bias_spans);
  if (c.alibi)
    s += c.alibi_by_batch ? fmt::format(" --alibi random:{},{}", c.batch, c.heads)
                          : std::string(" --alibi random");
  if (c.sink) s += " --sink random";
  return s;
}

std::string memory_options(const Case& c) {
  std::string s;
  const auto list = [&](std::string_view option, const std::vector<std::int64_t>& numbers) {
    if (!numbers.empty()) s += fmt::format(" {} {}", option, fmt::join(numbers, ","));
  };
  list("--kv-lengths", c.kv_lengths);
  list("--kv-starts", c.kv_starts);
  list("--cache-batch-idx", c.cache_rows);
  list("--cu-seqlens-q", c.cu_q);
  list("--cu-seqlens-k", c.cu_k);
  list("--seqused-q", c.used_q);
  list("--seqused-k", c.used_k);
  if (c.page_size != 0) s += fmt::format(" --page-size {}", c.page_size);
  return s;
}

std::string options(const Case& c) {
  std::string s = band_options(c) + array_options(c) + memory_options(c);
  if (!std::isnan(c.scale)) s += fmt::format(" --scale {}", c.scale);
  if (c.softcap != 0) s += fmt::format(" --softcap {}", c.softcap);
  if (c.dropout != 0)
    s += fmt::format(" --dropout {} --dropout-seed {}", c.dropout, c.dropout_seed);
  if (c.dropout != 0 && c.dropout_offset != 0)
    s += fmt::format(" --dropout-offset {}", c.dropout_offset);
  if (c.dtype != DType::kFloat32) s += fmt::format(" --dtype {}", short_name(c.dtype));
  if (c.pull) s += " --backward";
  if (c.pull && c.pull->d_lse) s += " --d-lse";
  return s;
}

std::string spans_text(const Spans& s) {
  std::string text;
  for (std::size_t n = 0; n < 4; ++n) text += s.of[n] ? "bhij"[n] : '-';
  return text + (s.by_stride ? " by stride" : "");
}

std::string pull_text(const Pull& p) {
  std::string s;
  if (p.d_out_layout != Layout::kDense) s += fmt::format(", d_out {}", name_of(p.d_out_layout));
  if (p.layout != Layout::kDense) s += fmt::format(", gradients {}", name_of(p.layout));
  const std::pair<bool, const char*> words[] = {{p.d_out_wide, "d_out in f32"},
                                                {p.wide, "gradients in f32"},
                                                {p.summed_bias, "d_bias summed"},
                                                {p.accumulate, "accumulating"},
                                                {!p.dq, "without dq"},
                                                {!p.dk, "without dk"},
                                                {!p.dv, "without dv"},
                                                {!p.d_bias, "without d_bias"},
                                                {!p.d_sink, "without d_sink"}};
  for (const auto& [is_so, word] : words)
    if (is_so) s += fmt::format(", {}", word);
  return s;
}

// What the command line has no option for.
std::string rest(const Case& c) {
  std::string s;
  for (const auto& [name, layout] : {std::pair{"q", c.q_layout}, std::pair{"k", c.k_layout},
                                     std::pair{"v", c.v_layout}, std::pair{"out", c.out_layout}})
    if (layout != Layout::kDense) s += fmt::format(", {} {}", name, name_of(layout));
  if (c.align == TESSERA_ALIGN_OFFSETS) s += fmt::format(", offsets {}", fmt::join(c.offsets, ","));
  if (c.mask != MaskKind::kNone && c.mask != MaskKind::kRandom)
    s += fmt::format(", mask kind {} over {}", int(c.mask), spans_text(c.mask_spans));
  const bool usual_bias = c.bias == BiasKind::kNormal && c.bias_dtype == DType::kFloat32;
  if (c.bias != BiasKind::kNone && !usual_bias)
    s += fmt::format(", bias kind {} in {} over {}", int(c.bias), short_name(c.bias_dtype),
                     spans_text(c.bias_spans));
  if (c.state) s += ", from a state";
  if (c.wide_out) s += ", out in float32";
  if (c.pull) s += pull_text(*c.pull);
  return s.empty() ? s : "  # and" + s.substr(1);
}

}  // namespace

std::int64_t Case::first_key(std::int64_t b) const {
  if (kv_starts.empty()) return 0;
  return std::clamp<std::int64_t>(kv_starts[std::size_t(b)], 0, end_of_keys(b));
}

std::int64_t Case::queries_of(std::int64_t b) const {
  const auto n = std::size_t(b);
  if (!used_q.empty()) return used_q[n];
  return cu_q.empty() ? queries : cu_q[n + 1] - cu_q[n];
}

std::int64_t Case::capacity(std::int64_t b) const {
  const auto n = std::size_t(b);
  if (page_size != 0) return pages_of_a_sequence() * page_size;
  return cu_k.empty() ? keys : cu_k[n + 1] - cu_k[n];
}

std::int64_t Case::end_of_keys(std::int64_t b) const {
  const auto n = std::size_t(b);
  const std::int64_t used = used_k.empty() ? capacity(b) : used_k[n];
  return kv_lengths.empty() ? used : std::min(used, kv_lengths[n]);
}

std::int64_t Case::pages_of_a_sequence() const { return (keys + page_size - 1) / page_size; }

Index4 Case::q_shape() const {
  if (cu_q.empty()) return {batch, queries, heads, dim};
  return {1, cu_q.back() + spare_rows, heads, dim};
}

Index4 Case::k_shape() const {
  if (page_size != 0) return {batch * pages_of_a_sequence(), page_size, kv_heads, dim};
  if (!cu_k.empty()) return {1, cu_k.back() + spare_rows, kv_heads, dim};
  const auto spare = std::int64_t{cache_rows.empty() ? 0 : 2};
  return {batch + spare, keys, kv_heads, dim};
}

std::int64_t Case::diagonal(std::int64_t b) const {
  if (align == TESSERA_ALIGN_BOTTOM_RIGHT) return end_of_keys(b) - queries_of(b);
  if (align == TESSERA_ALIGN_OFFSET) return offset;
  if (align == TESSERA_ALIGN_OFFSETS) return offsets[std::size_t(b)];
  return 0;
}

std::string command_line(const Case& c, const std::string& environment, const std::string& more) {
  // The command line counts all rows of a packed side.
  const std::int64_t queries = c.cu_q.empty() ? c.queries : c.q_shape()[1];
  const std::int64_t keys = c.cu_k.empty() ? c.keys : c.k_shape()[1];
  return fmt::format("{}tessera verify --shape {},{},{},{},{},{},{} --seed {}{}{}{}", environment,
                     c.batch, queries, keys, c.heads, c.kv_heads, c.dim, c.value_dim, c.seed,
                     options(c), more, rest(c));
}

}  // namespace tessera::test
