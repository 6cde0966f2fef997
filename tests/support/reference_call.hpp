// Small calls in double with any set of options.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/random.hpp"
#include "support/array.hpp"

namespace tessera::test {

enum Option : unsigned {
  kSoftcap = 1,
  kAlibi = 2,
  kWindow = 4,  // with one alignment after the other
  kMask = 8,
  kBias = 16,  // one entry of six is -inf
  kSink = 32,
  kDropout = 64,
  kLengths = 128,
  kStarts = 256,
  kCacheRows = 512,
  kPacked = 1024,
  kPages = 2048,  // with lengths
  kState = 4096,  // a state to start from, empty for one row of four
};
inline constexpr unsigned kEveryOption = 8191;

inline std::string name_of_options(unsigned options) {
  static const char* const names[] = {"softcap", "alibi", "window",  "mask",   "bias",
                                      "sink",    "drop",  "lengths", "starts", "rows",
                                      "packed",  "pages", "state"};
  std::string text;
  for (unsigned n = 0; n < 13; ++n)
    if (options >> n & 1u) text += (text.empty() ? "" : "_") + std::string(names[n]);
  return text.empty() ? "plain" : text;
}

struct Sizes {
  std::int64_t batch = 2, queries = 4, keys = 6, heads = 2, kv_heads = 1, dim = 3, value_dim = 2;
};

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline void fill_with_normal(Array& array, std::uint64_t seed, std::uint32_t tensor) {
  core::fill_normal(array.tensor(), seed, tensor);
}

// The tensor with dimensions of size 1 stretched by stride 0.
inline core::Tensor broadcast(const Array& array, const Index4& shape) {
  core::Tensor t = array.tensor();
  for (std::size_t n = 0; n < 4; ++n)
    if (t.shape[n] == 1) t.stride[n] = 0;
  t.shape = shape;
  return t;
}

// A problem and the memory of its tensors.
struct Call {
  core::Problem scalars;     // without tensors
  Index4 pairs{1, 1, 1, 1};  // [B, H, Lq, Lk], of the longest sequences
  Array q, k, v, out, lse;
  Array mask, bias, alibi, sink, offsets, kv_lengths, kv_starts, cache_batch_idx;
  Array cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, block_table, state_out, state_lse;

  core::Problem problem() const {
    core::Problem p = scalars;
    p.q = q.tensor(), p.k = k.tensor(), p.v = v.tensor();
    p.out = out.tensor(), p.lse = lse.tensor();
    if (mask.present()) p.mask = broadcast(mask, pairs);
    if (bias.present()) p.bias = broadcast(bias, pairs);
    p.alibi = alibi.tensor(), p.sink = sink.tensor(), p.offsets = offsets.tensor();
    p.kv_lengths = kv_lengths.tensor(), p.kv_starts = kv_starts.tensor();
    p.cache_batch_idx = cache_batch_idx.tensor(), p.block_table = block_table.tensor();
    p.cu_seqlens_q = cu_seqlens_q.tensor(), p.cu_seqlens_k = cu_seqlens_k.tensor();
    p.seqused_q = seqused_q.tensor(), p.seqused_k = seqused_k.tensor();
    p.state_out = state_out.tensor(), p.state_lse = state_lse.tensor();
    return p;
  }
};

// Gives q and k other outer sizes, and everything that follows from them.
inline void lay_out(Call& call, const Index4& q_shape, const Index4& k_shape, std::uint64_t seed) {
  const auto value_dim = call.scalars.value_dim;
  call.scalars.queries = q_shape[1];
  call.scalars.keys = call.block_table.present() ? k_shape[0] * k_shape[1] : k_shape[1];
  call.q = Array(DType::kFloat64, q_shape);
  call.k = Array(DType::kFloat64, k_shape);
  call.v = Array(DType::kFloat64, {k_shape[0], k_shape[1], k_shape[2], value_dim});
  call.out = Array(DType::kFloat64, {q_shape[0], q_shape[1], q_shape[2], value_dim});
  call.lse = Array(DType::kFloat64, {q_shape[0], q_shape[2], q_shape[1], 1});
  fill_with_normal(call.q, seed, 0);
  fill_with_normal(call.k, seed, 1);
  fill_with_normal(call.v, seed, 2);
}

// A dense call: q, k and v are N(0, 1), everything else is absent.
inline Call plain_call(const Sizes& s = {}, std::uint64_t seed = 1) {
  Call call;
  call.scalars.batch = s.batch;
  call.scalars.heads = s.heads;
  call.scalars.kv_heads = s.kv_heads;
  call.scalars.dim = s.dim;
  call.scalars.value_dim = s.value_dim;
  call.scalars.scale = 0.75f;
  call.pairs = {s.batch, s.heads, s.queries, s.keys};
  lay_out(call, {s.batch, s.queries, s.heads, s.dim}, {s.batch, s.keys, s.kv_heads, s.dim}, seed);
  return call;
}

inline Array integers(const std::vector<std::int64_t>& values) {
  Array array(DType::kInt32, {std::int64_t(values.size()), 1, 1, 1});
  array.fill([&](const Index4& i) { return double(values[std::size_t(i[0])]); });
  return array;
}

}  // namespace tessera::test
