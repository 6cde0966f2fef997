#include "plan/params.hpp"

#include <cstdint>

namespace tessera::plan {
namespace {

using core::DType;
using core::Tensor;
using device::Integers;
using device::Type;
using device::View;

View view(const Tensor& t) {
  return {t.data, {t.stride[0], t.stride[1], t.stride[2], t.stride[3]}};
}

Integers integers(const Tensor& t) {
  return {t.data, {t.stride[0], t.stride[1]}, t.dtype == DType::kInt64};
}

Type type_of(DType t) {
  if (t == DType::kFloat16) return Type::kFloat16;
  return t == DType::kBfloat16 ? Type::kBfloat16 : Type::kFloat32;
}

// Whether each row lies without gaps and begins at a multiple of `unit` bytes. The stride of a
// dimension of size 1 does not count.
bool rows_align(const Tensor& t, std::int64_t unit) {
  const std::int64_t elements = unit / core::size_of(t.dtype);
  bool aligned = reinterpret_cast<std::uintptr_t>(t.data) % std::uintptr_t(unit) == 0 &&
                 (t.stride[3] == 1 || t.shape[3] == 1);
  for (std::size_t i = 0; i < 3; ++i)
    aligned = aligned && (t.shape[i] <= 1 || t.stride[i] % elements == 0);
  return aligned;
}

// The same of a mask or a bias, each key of which has an element of its own.
bool pairs_align(const core::Problem& p, const Tensor& t) {
  return rows_align(t, 16) && (p.keys <= 1 || (t.shape[3] == p.keys && t.stride[3] == 1));
}

device::BandParams band_params(const core::Problem& p) {
  return {.left = p.left,
          .right = p.right,
          .offset = p.offset,
          .bottom_right = p.alignment == core::Alignment::kBottomRight,
          .offsets = p.alignment == core::Alignment::kOffsets ? integers(p.offsets) : Integers{}};
}

device::ScoreParams score_params(const core::Problem& p) {
  // Scale 0 is applied before pairs are hidden: -inf * 0 would be NaN.
  const bool adjusts = p.softcap != 0 || p.alibi.present() || p.bias.present() || p.scale == 0;
  const auto natural = adjusts ? 1.f : float(p.scale);
  return {.unit = natural * device::kLog2e,
          .factor = float(p.scale),
          .adjusts = adjusts,
          .scale = p.scale,
          .softcap = p.softcap,
          .alibi = view(p.alibi),
          .bias = view(p.bias),
          .mask = view(p.mask),
          .sink = view(p.sink),
          .bias_type = type_of(p.bias.dtype),
          .bias_vectors = p.bias.dtype == p.q.dtype && pairs_align(p, p.bias),
          .mask_vectors = pairs_align(p, p.mask)};
}

device::LengthParams length_params(const core::Problem& p) {
  return {.batch = p.batch,
          .queries = p.queries,
          .keys = p.keys,
          .queries_from = integers(p.cu_seqlens_q),
          .keys_from = integers(p.cu_seqlens_k),
          .queries_used = integers(p.seqused_q),
          .keys_used = integers(p.seqused_k),
          .key_lengths = integers(p.kv_lengths),
          .key_starts = integers(p.kv_starts),
          .cache_rows = integers(p.cache_batch_idx),
          .cache_size = p.k.shape[0]};
}

device::PageParams page_params(const core::Problem& p) {
  if (!p.paged()) return {};
  return {.table = integers(p.block_table),
          .pages = p.k.shape[0],
          .page_size = p.k.shape[1],
          .pages_of_a_sequence = p.block_table.shape[1]};
}

device::DropoutParams dropout_params(const core::Dropout& d) {
  return {
      .threshold = d.threshold(), .factor = float(d.factor()), .seed = d.seed, .offset = d.offset};
}

}  // namespace

device::ForwardParams forward_params(const core::Problem& p) {
  return {.q = view(p.q),
          .k = view(p.k),
          .v = view(p.v),
          .out = view(p.out),
          .lse = view(p.lse),
          .heads = int(p.heads),
          .group = int(p.group()),
          .dim = int(p.dim),
          .value_dim = int(p.value_dim),
          .q_vectors = rows_align(p.q, 16),
          .k_vectors = rows_align(p.k, 16),
          .v_vectors = rows_align(p.v, 16),
          .out_vectors = rows_align(p.out, 16) && p.value_dim % 8 == 0 && p.out.dtype == p.q.dtype,
          .out_pairs = rows_align(p.out, 4) && p.out.dtype == p.q.dtype,
          .out_wide = p.out.dtype == DType::kFloat32 && p.q.dtype != DType::kFloat32,
          .band = band_params(p),
          .score = score_params(p),
          .lengths = length_params(p),
          .pages = page_params(p),
          .dropout = dropout_params(p.dropout),
          .state_out = view(p.state_out),
          .state_lse = view(p.state_lse)};
}

}  // namespace tessera::plan
