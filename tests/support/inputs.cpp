#include "support/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/band.hpp"
#include "core/random.hpp"

namespace tessera::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The tensor numbers of core::normal.
enum Stream : std::uint32_t { kQ, kK, kV, kBias, kMask, kAlibi, kSink, kHole, kDOut, kDLse };

std::uint64_t chance(const Case& c, Stream stream, std::int64_t index) {
  return core::random_bits(c.seed, stream, std::uint64_t(index)).low >> 32;
}

Index4 spanned(const Spans& s, const Case& c) {
  const auto size = [&](std::size_t n, std::int64_t full) { return s.of[n] ? full : 1; };
  return {size(0, c.batch), size(1, c.heads), size(2, c.queries), size(3, c.keys)};
}

// Gives the dimensions that are not distinguished their full size, if so asked.
void expand(Array& a, const Spans& s, const Case& c) {
  const Index4 full{c.batch, c.heads, c.queries, c.keys};
  for (std::size_t n = 0; s.by_stride && n < 4; ++n)
    if (!s.of[n]) a.expand(int(n), full[n]);
}

bool allows(const Case& c, const Index4& at, std::int64_t index) {
  const auto [b, h, i, j] = at;
  switch (c.mask) {
    case MaskKind::kRandom: return chance(c, kMask, index) % 4 != 0;
    case MaskKind::kSparse: return chance(c, kMask, index) % 16 == 0;
    case MaskKind::kCausal: return j <= i;
    case MaskKind::kPadding: return j >= (7 * b + 3) % (c.keys + 1);
    case MaskKind::kBlocks: return (i / 32 + j / 96 + h) % 2 == 0;
    case MaskKind::kNone: break;
  }
  return true;
}

Array make_mask(const Case& c) {
  if (c.mask == MaskKind::kNone) return {};
  Array a(c.seed % 2 == 0 ? DType::kBool : DType::kUint8, spanned(c.mask_spans, c));
  a.fill([&](const Index4& at) { return allows(c, at, dense_index(a.shape(), at)) ? 1. : 0.; });
  expand(a, c.mask_spans, c);
  return a;
}

double lowest(DType t) {
  if (t == DType::kFloat16) return -65504;
  if (t == DType::kBfloat16) return -double(core::float_from_bfloat16(0x7f7f));
  return -double(std::numeric_limits<float>::max());
}

Array make_bias(const Case& c) {
  if (c.bias == BiasKind::kNone) return {};
  Array a(c.bias_dtype, spanned(c.bias_spans, c));
  a.fill([&](const Index4& at) {
    const std::int64_t index = dense_index(a.shape(), at);
    const bool special = c.bias != BiasKind::kNormal && chance(c, kHole, index) % 4 == 0;
    if (special) return c.bias == BiasKind::kHoles ? -kInfinity : lowest(c.bias_dtype);
    return core::normal(c.seed, kBias, std::uint64_t(index));
  });
  expand(a, c.bias_spans, c);
  return a;
}

Array normals(const Case& c, Stream stream, DType dtype, const Index4& shape,
              Layout layout = Layout::kDense) {
  Array a(dtype, shape, layout);
  a.fill([&](const Index4& at) {
    return core::normal(c.seed, stream, std::uint64_t(dense_index(shape, at)));
  });
  return a;
}

Array make_alibi(const Case& c) {
  if (!c.alibi) return {};
  const Index4 shape = c.alibi_by_batch ? Index4{c.batch, c.heads, 1, 1} : Index4{c.heads, 1, 1, 1};
  Array a = normals(c, kAlibi, DType::kFloat32, shape);
  a.fill([&](const Index4& at) { return 0.125 * a.at(at[0], at[1]); });
  return a;
}

Array integers(const std::vector<std::int64_t>& from, DType dtype) {
  if (from.empty()) return {};
  Array a(dtype, {std::int64_t(from.size()), 1, 1, 1});
  a.fill([&](const Index4& at) { return double(from[std::size_t(at[0])]); });
  return a;
}

// An index into a tensor that may have size 1 where the call has more.
double broadcast(const Array& a, const Index4& at) {
  Index4 i{};
  for (std::size_t n = 0; n < 4; ++n) i[n] = a.shape()[n] == 1 ? 0 : at[n];
  return a.at(i[0], i[1], i[2], i[3]);
}

bool in_band(const Case& c, std::int64_t b, std::int64_t i, std::int64_t j) {
  const std::int64_t distance = j - i - core::Band::clamp(c.diagonal(b));
  return (c.left == TESSERA_UNBOUNDED || distance >= -c.left) &&
         (c.right == TESSERA_UNBOUNDED || distance <= c.right);
}

// Visibility without what `bias` says.
bool allowed_beside_bias(const Inputs& in, const Index4& at) {
  const auto [b, h, i, j] = at;
  return j >= in.of.first_key(b) && j < in.of.end_of_keys(b) && in_band(in.of, b, i, j) &&
         (!in.mask.present() || broadcast(in.mask, at) != 0);
}

void poison_key(Array& a, const Index4& at) {
  for (std::int64_t d = 0; d < a.shape()[3]; ++d) a.set({at[0], at[1], at[2], d}, kNaN);
}

// The entries of the bias that only hidden pairs read.
Array poisoned_bias(const Inputs& in) {
  Array result = in.bias;
  std::vector<bool> used(std::size_t(in.bias.count()), false);
  const Case& c = in.of;
  const Index4& shape = in.bias.shape();
  Array pairs(DType::kBool, {c.batch, c.heads, c.queries, c.keys});
  pairs.for_each([&](const Index4& at) {
    if (!allowed_beside_bias(in, at)) return;
    Index4 entry{};
    for (std::size_t n = 0; n < 4; ++n) entry[n] = c.bias_spans.of[n] ? at[n] : 0;
    used[std::size_t(dense_index(shape, entry))] = true;
  });
  result.for_each([&](const Index4& at) {
    Index4 entry{};
    for (std::size_t n = 0; n < 4; ++n) entry[n] = c.bias_spans.of[n] ? at[n] : 0;
    if (!used[std::size_t(dense_index(shape, entry))]) result.set(at, kNaN);
  });
  return result;
}

}  // namespace

Inputs::Inputs(const Case& c)
    : of(c),
      q(normals(c, kQ, c.dtype, {c.batch, c.queries, c.heads, c.dim}, c.q_layout)),
      k(normals(c, kK, c.dtype, {c.batch, c.keys, c.kv_heads, c.dim}, c.k_layout)),
      v(normals(c, kV, c.dtype, {c.batch, c.keys, c.kv_heads, c.value_dim}, c.v_layout)),
      mask(make_mask(c)),
      bias(make_bias(c)),
      alibi(make_alibi(c)),
      kv_lengths(integers(c.kv_lengths, c.length_dtype)),
      kv_starts(integers(c.kv_starts, c.length_dtype)),
      offsets(integers(c.offsets, c.length_dtype)) {
  if (core::makes_few_outputs(v.shape()))
    v.fill([this](const Index4& i) { return std::abs(v.at(i[0], i[1], i[2], i[3])); });
  if (c.sink) sink = normals(c, kSink, DType::kFloat32, {c.heads, 1, 1, 1});
}

bool Inputs::sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const Index4 at{b, h, i, j};
  return allowed_beside_bias(*this, at) && (!bias.present() || broadcast(bias, at) != -kInfinity);
}

double Inputs::bias_at(const Index4& pair) const { return broadcast(bias, pair); }

bool Inputs::row_is_empty(std::int64_t b, std::int64_t h, std::int64_t i) const {
  for (std::int64_t j = 0; j < of.keys; ++j)
    if (sees(b, h, i, j)) return false;
  return true;
}

bool Inputs::seen_by_any(std::int64_t b, std::int64_t kh, std::int64_t j) const {
  for (std::int64_t h = kh * of.group(); h < (kh + 1) * of.group(); ++h)
    for (std::int64_t i = 0; i < of.queries; ++i)
      if (sees(b, h, i, j)) return true;
  return false;
}

Inputs Inputs::in(DType dtype) const {
  Inputs result = *this;
  result.of.dtype = dtype;
  result.q = q.converted(dtype);
  result.k = k.converted(dtype);
  result.v = v.converted(dtype);
  return result;
}

Inputs Inputs::with_unseen_memory_poisoned() const {
  Inputs result = *this;
  Array keys(DType::kBool, {of.batch, of.keys, of.kv_heads, 1});
  keys.fill([this](const Index4& at) { return seen_by_any(at[0], at[2], at[1]) ? 1. : 0.; });
  const auto seen = [&](const Index4& at, Layout layout) {
    if (layout != Layout::kSharedByHeads) return keys.at(at[0], at[1], at[2]) != 0;
    for (std::int64_t h = 0; h < of.kv_heads; ++h)
      if (keys.at(at[0], at[1], h) != 0) return true;
    return false;
  };
  keys.for_each([&](const Index4& at) {
    if (!seen(at, of.k_layout)) poison_key(result.k, at);
    if (!seen(at, of.v_layout)) poison_key(result.v, at);
  });
  if (bias.present()) result.bias = poisoned_bias(*this);
  return result;
}

Outputs::Outputs(const Case& c)
    : out(c.dtype, {c.batch, c.queries, c.heads, c.value_dim}, c.out_layout) {
  if (c.lse) {
    const bool wide = c.dtype == DType::kFloat64;
    lse = Array(wide ? DType::kFloat64 : DType::kFloat32, {c.batch, c.heads, c.queries, 1});
  }
}

Upstream::Upstream(const Case& c)
    : d_out(normals(c, kDOut, c.pull->d_out_wide ? DType::kFloat32 : c.dtype,
                    {c.batch, c.queries, c.heads, c.value_dim}, c.pull->d_out_layout)) {
  if (c.pull->d_lse) d_lse = normals(c, kDLse, DType::kFloat32, {c.batch, c.heads, c.queries, 1});
}

tessera_attention_desc describe(const Inputs& in, const Outputs& outputs) {
  tessera_attention_desc d = tessera_attention_desc_default();
  d.q = in.q.abi();
  d.k = in.k.abi();
  d.v = in.v.abi();
  d.out = outputs.out.abi();
  d.lse = outputs.lse.abi();
  d.scale = in.of.scale;
  d.softcap = in.of.softcap;
  d.left = in.of.left;
  d.right = in.of.right;
  d.align = in.of.align;
  d.offset = in.of.offset;
  d.offsets = in.offsets.abi();
  d.mask = in.mask.abi();
  d.bias = in.bias.abi();
  d.alibi = in.alibi.abi();
  d.sink = in.sink.abi();
  d.kv_lengths = in.kv_lengths.abi();
  d.kv_starts = in.kv_starts.abi();
  return d;
}

}  // namespace tessera::test
