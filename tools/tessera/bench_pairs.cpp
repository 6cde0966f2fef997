#include "tools/tessera/bench_pairs.hpp"

#include "core/problem.hpp"

namespace tessera::tool {
namespace {

core::Alignment alignment_of(const Alignment& align) {
  if (align.kind == TESSERA_ALIGN_BOTTOM_RIGHT) return core::Alignment::kBottomRight;
  return align.kind == TESSERA_ALIGN_OFFSET ? core::Alignment::kOffset : core::Alignment::kTopLeft;
}

// A dimension of size 1 stands for all.
std::int64_t at(const core::Tensor& t, int dimension, std::int64_t i) {
  return t.shape[std::size_t(dimension)] == 1 ? 0 : i;
}

std::int64_t unmasked(const core::Tensor& mask, const core::Index4& row, core::Range keys) {
  std::int64_t count = 0;
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    count += mask.load(at(mask, 0, row[0]), at(mask, 1, row[1]), at(mask, 2, row[2]),
                       at(mask, 3, j)) != 0;
  return count;
}

std::int64_t keys_of_row(const core::Problem& p, const core::Index4& row) {
  const core::Sequence s = p.sequence(row[0]);
  const core::Range keys = s.band.seen_by_any({row[2], row[2] + 1}) & s.keys;
  if (keys.empty()) return 0;
  return p.mask.present() ? unmasked(p.mask, row, keys) : keys.size();
}

}  // namespace

core::Problem outline(const Inputs& inputs, const AttentionOptions& options) {
  const Shape shape = shape_of(inputs);
  const Window window = options.band();
  core::Problem p;
  p.batch = shape.batch;
  p.heads = shape.heads;
  p.kv_heads = shape.kv_heads;
  p.queries = shape.queries;
  p.keys = shape.keys;
  p.left = core::Band::clamp(window.left);
  p.right = core::Band::clamp(window.right);
  p.alignment = alignment_of(options.align);
  p.offset = core::Band::clamp(options.align.offset);
  p.k = inputs.k.tensor;
  p.kv_lengths = inputs.kv_lengths.tensor;
  p.kv_starts = inputs.kv_starts.tensor;
  p.cache_batch_idx = inputs.cache_batch_idx.tensor;
  p.cu_seqlens_q = inputs.cu_seqlens_q.tensor;
  p.cu_seqlens_k = inputs.cu_seqlens_k.tensor;
  p.seqused_q = inputs.seqused_q.tensor;
  p.seqused_k = inputs.seqused_k.tensor;
  p.block_table = inputs.block_table.tensor;
  p.mask = inputs.mask.tensor;
  return p;
}

std::int64_t visible_pairs(const Inputs& inputs, const AttentionOptions& options) {
  const core::Problem p = outline(inputs, options);
  // Where the mask does not tell heads apart, one of them stands for all.
  const bool alike = !p.mask.present() || p.mask.shape[1] == 1;
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < (alike ? 1 : p.heads); ++h)
      for (std::int64_t i = 0, n = p.sequence(b).queries; i < n; ++i)
        count += keys_of_row(p, {b, h, i, 0});
  return alike ? count * p.heads : count;
}

double useful_flops(const Inputs& inputs, const AttentionOptions& options, bool backward) {
  const Shape s = shape_of(inputs);
  const std::int64_t products = backward ? 3 * s.dim + 2 * s.value_dim : s.dim + s.value_dim;
  return 2. * double(products) * double(visible_pairs(inputs, options));
}

double cache_bytes(const Inputs& inputs, const AttentionOptions& options) {
  const core::Problem p = outline(inputs, options);
  const Shape shape = shape_of(inputs);
  std::int64_t keys = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const core::Sequence s = p.sequence(b);
    if (s.queries == 0) continue;
    const core::Range seen = s.band.seen_by_any({0, s.queries}) & s.keys;
    if (!seen.empty()) keys += seen.size();
  }
  const std::int64_t row = shape.kv_heads * (shape.dim + shape.value_dim);
  return double(keys) * double(row * core::size_of(inputs.k.tensor.dtype));
}

}  // namespace tessera::tool
