#include "support/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/band.hpp"
#include "core/problem.hpp"
#include "core/random.hpp"

namespace tessera::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The tensor numbers of core::normal.
enum Stream : std::uint32_t {
  kQ,
  kK,
  kV,
  kBias,
  kMask,
  kAlibi,
  kSink,
  kTable,
  kHole,
  kStateOut,
  kStateLse,
  kDOut,
  kDLse
};

std::uint64_t chance(const Case& c, Stream stream, std::int64_t index) {
  return core::random_bits(c.seed, stream, std::uint64_t(index)).low >> 32;
}

Index4 with_dim(Index4 shape, std::int64_t dim) {
  shape[3] = dim;
  return shape;
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

// Masks and biases lie as q does where copies are to read it.
Layout pair_layout(const Case& c) {
  return c.q_layout == Layout::kAligned ? Layout::kAligned : Layout::kDense;
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
  Array a(c.seed % 2 == 0 ? DType::kBool : DType::kUint8, spanned(c.mask_spans, c), pair_layout(c));
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
  Array a(c.bias_dtype, spanned(c.bias_spans, c), pair_layout(c));
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

// Each page once.
Array make_table(const Case& c) {
  if (c.page_size == 0) return {};
  const std::int64_t columns = c.pages_of_a_sequence();
  const std::vector<std::int64_t> pages = core::shuffled(c.batch * columns, c.seed, kTable);
  Array a(DType::kInt32, {c.batch, columns, 1, 1});
  a.fill([&](const Index4& at) { return double(pages[std::size_t(at[0] * columns + at[1])]); });
  return a;
}

// k or v. In pages the numbers are those of dense keys, and what is no key is 0.
Array keys_of(const Case& c, Stream stream, std::int64_t dim, Layout layout) {
  const Index4 shape = with_dim(c.k_shape(), dim);
  if (c.page_size == 0) return normals(c, stream, c.dtype, shape, layout);
  const Array dense = normals(c, stream, DType::kFloat64, {c.batch, c.keys, c.kv_heads, dim});
  const Array table = make_table(c);
  Array a(c.dtype, shape, layout);
  a.fill([](const Index4&) { return 0.; });
  dense.for_each([&](const Index4& i) {
    const auto page = std::int64_t(table.at(i[0], i[1] / c.page_size));
    a.set({page, i[1] % c.page_size, i[2], i[3]}, dense.at(i[0], i[1], i[2], i[3]));
  });
  return a;
}

// One row of four has seen nothing yet, which both infinities say.
Array make_state_lse(const Case& c) {
  const Index4 q = c.q_shape();
  Array a(DType::kFloat32, {q[0], q[2], q[1], 1});
  a.fill([&](const Index4& at) {
    const std::int64_t index = dense_index(a.shape(), at);
    const std::uint64_t kind = chance(c, kHole, index) % 8;
    if (kind < 2) return kind == 0 ? -kInfinity : kInfinity;
    return 2 * core::normal(c.seed, kStateLse, std::uint64_t(index));
  });
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
  return i < in.of.queries_of(b) && j >= in.of.first_key(b) && j < in.of.end_of_keys(b) &&
         in_band(in.of, b, i, j) && (!in.mask.present() || broadcast(in.mask, at) != 0);
}

void poison_row(Array& a, const Index4& at) {
  for (std::int64_t d = 0; d < a.shape()[3]; ++d) a.set({at[0], at[1], at[2], d}, kNaN);
}

// Rows [batch row, row, head] of a tensor with a mark for each.
class Marks {
 public:
  explicit Marks(const Index4& shape) : marks_(DType::kBool, {shape[0], shape[1], shape[2], 1}) {
    marks_.fill([](const Index4&) { return 0.; });
  }
  void mark(const Place& at, std::int64_t head) { marks_.set({at.batch, at.row, head, 0}, 1); }
  // NaN into the rows without a mark; memory that heads share is marked by any of them.
  void poison_others(Array& a, Layout layout) const {
    marks_.for_each([&](const Index4& at) {
      bool marked = marks_.at(at[0], at[1], at[2]) != 0;
      for (std::int64_t h = 0; layout == Layout::kSharedByHeads && h < marks_.shape()[2]; ++h)
        marked = marked || marks_.at(at[0], at[1], h) != 0;
      if (!marked) poison_row(a, at);
    });
  }

 private:
  Array marks_;
};

// Table entries that no key needs.
Array wild_table(const Inputs& in) {
  Array result = in.table;
  if (!result.present()) return result;
  result.for_each([&](const Index4& at) {
    if (at[1] * in.of.page_size >= in.of.kv_lengths[std::size_t(at[0])])
      result.set(at, at[1] % 2 == 0 ? -2147483648. : 2147483647.);
  });
  return result;
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
      q(normals(c, kQ, c.dtype, c.q_shape(), c.q_layout)),
      k(keys_of(c, kK, c.dim, c.k_layout)),
      v(keys_of(c, kV, c.value_dim, c.v_layout)),
      mask(make_mask(c)),
      bias(make_bias(c)),
      alibi(make_alibi(c)),
      kv_lengths(integers(c.kv_lengths, c.length_dtype)),
      kv_starts(integers(c.kv_starts, c.length_dtype)),
      offsets(integers(c.offsets, c.length_dtype)),
      cu_q(integers(c.cu_q, c.length_dtype)),
      cu_k(integers(c.cu_k, c.length_dtype)),
      used_q(integers(c.used_q, c.length_dtype)),
      used_k(integers(c.used_k, c.length_dtype)),
      table(make_table(c)),
      cache_rows(integers(c.cache_rows, DType::kInt32)) {
  const std::int64_t rows = c.page_size != 0 ? c.batch : v.shape()[0];
  if (core::makes_few_outputs({rows, c.keys, c.kv_heads, c.value_dim}))
    v.fill([this](const Index4& i) { return std::abs(v.at(i[0], i[1], i[2], i[3])); });
  if (c.sink) sink = normals(c, kSink, DType::kFloat32, {c.heads, 1, 1, 1});
  if (!c.state) return;
  state_out = normals(c, kStateOut, DType::kFloat32, with_dim(c.q_shape(), c.value_dim));
  state_lse = make_state_lse(c);
}

bool Inputs::sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const Index4 at{b, h, i, j};
  return allowed_beside_bias(*this, at) && (!bias.present() || broadcast(bias, at) != -kInfinity);
}

double Inputs::bias_at(const Index4& pair) const { return broadcast(bias, pair); }

bool Inputs::keeps(const Index4& pair) const {
  const auto [b, h, i, j] = pair;
  const core::Dropout dropout{of.dropout, of.dropout_seed, of.dropout_offset};
  return of.dropout == 0 || dropout.keeps(b * of.heads + h, i, j);
}

Place Inputs::query_at(std::int64_t b, std::int64_t i) const {
  if (of.cu_q.empty()) return {b, i};
  return {0, of.cu_q[std::size_t(b)] + i};
}

Place Inputs::key_at(std::int64_t b, std::int64_t j) const {
  if (of.page_size != 0) return {std::int64_t(table.at(b, j / of.page_size)), j % of.page_size};
  if (!of.cu_k.empty()) return {0, of.cu_k[std::size_t(b)] + j};
  return {of.cache_rows.empty() ? b : of.cache_rows[std::size_t(b)], j};
}

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
  Marks queries(q.shape()), keys(k.shape()), values(v.shape());
  Array(DType::kBool, {of.batch, of.heads, of.queries, 1}).for_each([&](const Index4& at) {
    const auto [b, h, i, unused] = at;
    if (i >= of.queries_of(b)) return;
    queries.mark(query_at(b, i), h);
    for (std::int64_t j = of.first_key(b); j < of.end_of_keys(b); ++j) {
      if (!sees(b, h, i, j)) continue;
      keys.mark(key_at(b, j), h / of.group());
      if (keeps({b, h, i, j})) values.mark(key_at(b, j), h / of.group());
    }
  });
  queries.poison_others(result.q, of.q_layout);
  keys.poison_others(result.k, of.k_layout);
  values.poison_others(result.v, of.v_layout);
  if (bias.present()) result.bias = poisoned_bias(*this);
  result.table = wild_table(*this);
  if (of.state)
    state_lse.for_each([&](const Index4& at) {
      if (std::isinf(state_lse.at(at[0], at[1], at[2])))
        poison_row(result.state_out, {at[0], at[2], at[1], 0});
    });
  return result;
}

Outputs::Outputs(const Case& c)
    : out(c.out_dtype(), with_dim(c.q_shape(), c.value_dim), c.out_layout) {
  if (c.lse) {
    const bool wide = c.dtype == DType::kFloat64;
    const Index4 q = c.q_shape();
    lse = Array(wide ? DType::kFloat64 : DType::kFloat32, {q[0], q[2], q[1], 1});
  }
}

Upstream::Upstream(const Case& c)
    : d_out(normals(c, kDOut, c.pull->d_out_wide ? DType::kFloat32 : c.dtype,
                    with_dim(c.q_shape(), c.value_dim), c.pull->d_out_layout)) {
  const Index4 q = c.q_shape();
  if (c.pull->d_lse) d_lse = normals(c, kDLse, DType::kFloat32, {q[0], q[2], q[1], 1});
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
  d.cu_seqlens_q = in.cu_q.abi();
  d.cu_seqlens_k = in.cu_k.abi();
  d.seqused_q = in.used_q.abi();
  d.seqused_k = in.used_k.abi();
  d.block_table = in.table.abi();
  d.cache_batch_idx = in.cache_rows.abi();
  d.dropout_p = in.of.dropout;
  d.dropout_seed = in.of.dropout_seed;
  d.dropout_offset = in.of.dropout_offset;
  d.state_out = in.state_out.abi();
  d.state_lse = in.state_lse.abi();
  return d;
}

}  // namespace tessera::test
