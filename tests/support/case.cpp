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
  if (!c.kv_lengths.empty()) s += fmt::format(" --kv-lengths {}", fmt::join(c.kv_lengths, ","));
  return s;
}

std::string options(const Case& c) {
  std::string s = band_options(c) + array_options(c);
  if (!std::isnan(c.scale)) s += fmt::format(" --scale {}", c.scale);
  if (c.softcap != 0) s += fmt::format(" --softcap {}", c.softcap);
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
  if (!c.kv_starts.empty()) s += fmt::format(", kv_starts {}", fmt::join(c.kv_starts, ","));
  if (c.pull) s += pull_text(*c.pull);
  return s.empty() ? s : "  # and" + s.substr(1);
}

}  // namespace

std::int64_t Case::first_key(std::int64_t b) const {
  return kv_starts.empty() ? 0 : std::max<std::int64_t>(0, kv_starts[std::size_t(b)]);
}

std::int64_t Case::end_of_keys(std::int64_t b) const {
  return kv_lengths.empty() ? keys : kv_lengths[std::size_t(b)];
}

std::int64_t Case::diagonal(std::int64_t b) const {
  if (align == TESSERA_ALIGN_BOTTOM_RIGHT) return end_of_keys(b) - queries;
  if (align == TESSERA_ALIGN_OFFSET) return offset;
  if (align == TESSERA_ALIGN_OFFSETS) return offsets[std::size_t(b)];
  return 0;
}

std::string command_line(const Case& c, const std::string& environment, const std::string& more) {
  return fmt::format("{}tessera verify --shape {},{},{},{},{},{},{} --seed {}{}{}{}", environment,
                     c.batch, c.queries, c.keys, c.heads, c.kv_heads, c.dim, c.value_dim, c.seed,
                     options(c), more, rest(c));
}

}  // namespace tessera::test
