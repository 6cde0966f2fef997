#include "support/random_case.hpp"

#include <algorithm>

namespace tessera::test {

namespace {

// Where tiles begin: strips of 2 * lanes queries for 1, 4, 8 and 16 lanes and tasks of two, blocks
// of 96 keys, panels of 2 * lanes values.
constexpr std::int64_t kQueryEdges[] = {2, 4, 8, 16, 32, 64, 128};
constexpr std::int64_t kKeyEdges[] = {4, 16, 96, 192, 288};
constexpr std::int64_t kDimEdges[] = {2, 8, 16, 32, 64, 96, 128};
constexpr std::int64_t kPrimes[] = {2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 97, 131};

template <class Edges> std::int64_t any_size(Dice& dice, const Edges& edges) {
  switch (dice.below(8)) {
    case 0: return 1;
    case 1:
    case 2: return dice.pick(kPrimes);
    default: return std::max<std::int64_t>(1, dice.pick(edges) + dice.between(-1, 1));
  }
}

std::int64_t work_of(const Case& c) {
  return c.batch * c.heads * c.queries * c.keys * (c.dim + c.value_dim);
}

// Halves the largest size until the case is small enough.
void shrink(Case& c, std::int64_t work) {
  while (work_of(c) > work) {
    std::int64_t* sizes[] = {&c.batch, &c.queries, &c.keys, &c.dim, &c.value_dim};
    std::int64_t& largest = **std::max_element(std::begin(sizes), std::end(sizes),
                                               [](auto* a, auto* b) { return *a < *b; });
    if (largest <= 2) return;
    largest = largest / 2 + largest % 2;
  }
}

void set_sizes(Case& c, Dice& dice) {
  c.batch = dice.pick({1, 1, 2, 3});
  c.kv_heads = dice.pick({1, 1, 2, 3});
  c.heads = c.kv_heads * dice.pick({1, 1, 2, 4});
  c.queries = any_size(dice, kQueryEdges);
  c.keys = any_size(dice, kKeyEdges);
  c.dim = any_size(dice, kDimEdges);
  c.value_dim = dice.one_in(2) ? c.dim : any_size(dice, kDimEdges);
}

// Few queries and keys of several splits (1024 each), as in decoding.
void set_decode_sizes(Case& c, Dice& dice) {
  c.batch = dice.pick({1, 1, 2});
  c.queries = dice.pick({1, 1, 1, 2, 3, 4, 7, 8, 9});
  c.keys = dice.pick({31, 33, 1023, 1024, 1025, 2047, 2049, 3100});
  c.dim = dice.pick({4, 8, 15, 16, 32, 64});
  c.value_dim = dice.one_in(2) ? c.dim : dice.pick({1, 8, 16, 33, 64});
}

// Doubles the shorter sequence, or the batch, until there is work enough.
void grow(Case& c, std::int64_t work) {
  while (work_of(c) < work) {
    std::int64_t& size = c.queries < c.keys ? c.queries : c.batch < 4 ? c.batch : c.keys;
    size = 2 * size + 1;
  }
}

void fit(Case& c, Dice& dice, const Limits& limits) {
  grow(c, limits.least_work);
  shrink(c, limits.work);
  if (!limits.sizes_of_zero || !dice.one_in(25)) return;
  std::int64_t* sizes[] = {&c.batch, &c.queries, &c.keys, &c.heads};
  *dice.pick(sizes) = 0;
  if (c.heads == 0) c.kv_heads = 0;
}

void set_layouts(Case& c, Dice& dice) {
  if (dice.one_in(3)) return;
  c.q_layout = dice.pick(kLayouts);
  c.k_layout = dice.pick(kLayouts);
  c.v_layout = dice.pick(kLayouts);
  do c.out_layout = dice.pick(kLayouts);
  while (c.out_layout == Layout::kSharedByHeads);
}

std::int64_t any_side(Dice& dice, std::int64_t keys) {
  switch (dice.below(4)) {
    case 0: return TESSERA_UNBOUNDED;
    case 1: return 0;
    case 2: return dice.between(0, 8);
    default: return dice.between(0, keys + 2);
  }
}

void set_offset(Case& c, Dice& dice) {
  const std::int64_t reach = c.queries + c.keys + 2;
  c.align = dice.pick({TESSERA_ALIGN_TOP_LEFT, TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_ALIGN_OFFSET,
                       TESSERA_ALIGN_OFFSETS});
  if (c.align == TESSERA_ALIGN_OFFSETS && c.batch == 0) c.align = TESSERA_ALIGN_TOP_LEFT;
  if (c.align == TESSERA_ALIGN_OFFSET) c.offset = dice.between(-reach, reach);
  if (c.align == TESSERA_ALIGN_OFFSETS)
    for (std::int64_t b = 0; b < c.batch; ++b) c.offsets.push_back(dice.between(-reach, reach));
}

void set_band(Case& c, Dice& dice) {
  if (dice.one_in(3)) return;
  c.left = any_side(dice, c.keys);
  c.right = any_side(dice, c.keys);
  set_offset(c, dice);
}

Spans any_spans(Dice& dice) {
  Spans s;
  for (bool& distinguished : s.of) distinguished = !dice.one_in(3);
  s.by_stride = dice.one_in(2);
  return s;
}

void set_masks(Case& c, Dice& dice) {
  if (dice.one_in(3)) {
    c.mask = dice.pick({MaskKind::kRandom, MaskKind::kCausal, MaskKind::kPadding, MaskKind::kBlocks,
                        MaskKind::kSparse});
    c.mask_spans = any_spans(dice);
  }
  if (dice.one_in(3)) {
    c.bias = dice.pick({BiasKind::kNormal, BiasKind::kHoles, BiasKind::kLowest});
    c.bias_spans = any_spans(dice);
    c.bias_dtype = dice.pick({DType::kFloat32, DType::kFloat16, DType::kBfloat16});
  }
}

void set_lengths(Case& c, Dice& dice) {
  const bool lengths = dice.one_in(3), starts = dice.one_in(4);
  c.length_dtype = dice.pick({DType::kInt32, DType::kInt64});
  for (std::int64_t b = 0; b < c.batch; ++b) {
    if (lengths) c.kv_lengths.push_back(dice.between(0, c.keys));
    const std::int64_t end = c.end_of_keys(b);
    if (starts) c.kv_starts.push_back(dice.between(0, end));
  }
}

// Boundaries of sequences from nothing to `most` rows long; at least one reaches it.
std::vector<std::int64_t> any_boundaries(Dice& dice, std::int64_t batch, std::int64_t most) {
  std::vector<std::int64_t> boundaries{0};
  const std::int64_t longest = batch == 0 ? 0 : dice.below(batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t rows = b == longest ? most : dice.one_in(4) ? 0 : dice.between(0, most);
    boundaries.push_back(boundaries.back() + rows);
  }
  return boundaries;
}

std::vector<std::int64_t> any_used(Dice& dice, const std::vector<std::int64_t>& boundaries) {
  std::vector<std::int64_t> used;
  for (std::size_t b = 0; b + 1 < boundaries.size(); ++b)
    used.push_back(dice.between(0, boundaries[b + 1] - boundaries[b]));
  return used;
}

void set_packed(Case& c, Dice& dice) {
  const std::int64_t sides = dice.below(4);  // queries, keys, or both
  if (sides != 1) c.cu_q = any_boundaries(dice, c.batch, c.queries);
  if (sides != 0) c.cu_k = any_boundaries(dice, c.batch, c.keys);
  c.spare_rows = dice.pick({0, 0, 1, 5});
  if (sides != 1 && dice.one_in(3)) c.used_q = any_used(dice, c.cu_q);
  if (sides != 0 && dice.one_in(3)) c.used_k = any_used(dice, c.cu_k);
}

void set_pages(Case& c, Dice& dice) {
  c.page_size = dice.pick({1, 2, 3, 7, 16, 64, 96, 192});
  c.page_size = std::min(c.page_size, std::max<std::int64_t>(1, c.keys));
  if (dice.one_in(3)) c.cu_q = any_boundaries(dice, c.batch, c.queries);
}

void set_cache_rows(Case& c, Dice& dice) {
  for (std::int64_t b = 0; b < c.batch; ++b) c.cache_rows.push_back(dice.between(0, c.batch + 1));
}

// How sequences lie, and lengths that fit.
void set_memory(Case& c, Dice& dice) {
  switch (dice.below(4)) {
    case 0: return;
    case 1: set_packed(c, dice); break;
    case 2: set_pages(c, dice); break;
    default: set_cache_rows(c, dice);
  }
  const bool lengths = c.page_size != 0 || !c.kv_lengths.empty(), starts = !c.kv_starts.empty();
  c.kv_lengths.clear();
  c.kv_starts.clear();
  for (std::int64_t b = 0; b < c.batch; ++b) {
    if (lengths) c.kv_lengths.push_back(dice.between(0, std::min(c.keys, c.capacity(b))));
    if (starts) c.kv_starts.push_back(dice.between(0, c.end_of_keys(b)));
  }
  if (c.batch == 0) c.page_size = 0;  // lengths of nobody cannot be given
}

void set_dropout(Case& c, Dice& dice) {
  if (!dice.one_in(4)) return;
  c.dropout = dice.pick({0.1f, 0.3f, 0.5f, 0.9f});
  c.dropout_seed = std::uint64_t(dice.between(0, INT64_MAX));
  if (dice.one_in(2)) c.dropout_offset = std::uint32_t(dice.between(0, UINT32_MAX));
}

void set_scores(Case& c, Dice& dice) {
  if (dice.one_in(4)) c.scale = dice.pick({0.f, 1.f, 0.5f, 0.04f});
  if (dice.one_in(4)) c.softcap = dice.pick({0.5f, 15.f, 50.f});
  c.alibi = dice.one_in(4);
  c.alibi_by_batch = c.alibi && dice.one_in(2);
  // The distance of ALiBi needs the diagonal as a band does.
  if (c.alibi && c.align == TESSERA_ALIGN_UNSET) set_offset(c, dice);
  c.sink = dice.one_in(4);
  c.lse = !dice.one_in(5);
}

Pull any_pull(Dice& dice) {
  Pull p;
  if (dice.one_in(2)) p.d_out_layout = dice.pick(kLayouts);
  p.d_out_wide = dice.one_in(4);
  p.d_lse = dice.one_in(3);
  p.wide = dice.one_in(2);
  p.summed_bias = dice.one_in(2);
  do p.layout = dice.one_in(3) ? dice.pick(kLayouts) : Layout::kDense;
  while (p.layout == Layout::kSharedByHeads);
  return p;
}

}  // namespace

Case random_plain_case(Dice& dice, const Limits& limits) {
  Case c;
  c.dtype = dice.pick({DType::kFloat32, DType::kFloat16, DType::kBfloat16});
  c.seed = std::uint64_t(dice.below(1'000'000));
  set_sizes(c, dice);
  if (dice.one_in(6)) set_decode_sizes(c, dice);
  fit(c, dice, limits);
  return c;
}

Case random_case(Dice& dice, const Limits& limits) {
  Case c = random_plain_case(dice, limits);
  set_layouts(c, dice);
  set_band(c, dice);
  set_masks(c, dice);
  set_lengths(c, dice);
  set_scores(c, dice);
  return c;
}

Case random_call(Dice& dice, const Limits& limits) {
  Case c = random_case(dice, limits);
  set_memory(c, dice);
  set_dropout(c, dice);
  c.state = dice.one_in(4);
  c.wide_out = dice.one_in(4);
  return c;
}

Case random_backward_case(Dice& dice, const Limits& limits) {
  Case c = random_call(dice, limits);
  if (c.page_size != 0 || c.state) c = random_case(dice, limits);  // which have no gradients
  c.lse = true;
  c.pull = any_pull(dice);
  return c;
}

Case aligned(Case c) {
  c.q_layout = c.k_layout = c.v_layout = c.out_layout = Layout::kAligned;
  return c;
}

}  // namespace tessera::test
