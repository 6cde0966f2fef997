// Calls with options, at random sizes and with random values.
#pragma once
#include "support/reference_call.hpp"

namespace tessera::test {

// Adds options to a call. Packed sequences and pages decide how q and k lie, so they come first.
class OptionWriter {
 public:
  OptionWriter(unsigned options, std::uint64_t seed)
      : options_(options), seed_(seed), draws_(seed, 77) {
    if (has(kPages)) options_ |= kLengths;
    if (has(kPages) || has(kPacked)) options_ &= ~unsigned{kCacheRows};
  }

  Call write() {
    Call call = plain_call(sizes(), seed_);
    memory(call);
    lengths(call);
    band(call);
    pairs(call);
    heads(call);
    if (has(kSoftcap)) call.scalars.softcap = 1.5f;
    if (has(kDropout)) call.scalars.dropout = {0.3f, seed_ * 0x9E3779B97F4A7C15u, 5};
    if (has(kState)) state(call);
    return call;
  }

  // A bias or mask that distinguishes the dimensions of `which` (bit n: dimension n).
  static Array pair_array(const Call& call, DType dtype, unsigned which) {
    Index4 shape = call.pairs;
    for (unsigned n = 0; n < 4; ++n)
      if (!(which >> n & 1u)) shape[n] = 1;
    return Array(dtype, shape);
  }

 private:
  bool has(Option option) const { return (options_ & option) != 0; }

  Sizes sizes() {
    Sizes s;
    s.batch = draws_.between(1, 3);
    s.queries = draws_.between(1, 5);
    s.keys = draws_.between(1, 7);
    s.kv_heads = draws_.between(1, 2);
    s.heads = s.kv_heads * draws_.between(1, 3);
    s.dim = draws_.between(1, 6);
    s.value_dim = draws_.between(1, 5);
    return s;
  }

  std::vector<std::int64_t> each_batch(const Call& call, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> values;
    for (std::int64_t b = 0; b < call.scalars.batch; ++b)
      values.push_back(draws_.between(low, high));
    return values;
  }

  std::vector<std::int64_t> sums_from_zero(const Call& call, std::int64_t most) {
    std::vector<std::int64_t> sums{0};
    for (const std::int64_t n : each_batch(call, 0, most)) sums.push_back(sums.back() + n);
    return sums;
  }

  void memory(Call& call) {
    const std::int64_t most_q = call.pairs[2], most_k = call.pairs[3];
    Index4 q = call.q.shape(), k = call.k.shape();
    if (has(kPacked)) {
      const auto sums = sums_from_zero(call, most_q);
      call.cu_seqlens_q = integers(sums);
      q = {1, sums.back() + 2, q[2], q[3]};  // two rows that belong to no sequence
    }
    if (has(kPages)) {
      const std::int64_t page_size = draws_.between(1, 3), pages = draws_.between(2, 5);
      const std::int64_t columns = (most_k + page_size - 1) / page_size;
      call.block_table = Array(DType::kInt32, {call.scalars.batch, columns, 1, 1});
      call.block_table.fill([&](const Index4&) { return double(draws_.between(0, pages - 1)); });
      k = {pages, page_size, k[2], k[3]};
      call.pairs[3] = columns * page_size;
    } else if (has(kPacked)) {
      const auto sums = sums_from_zero(call, most_k);
      call.cu_seqlens_k = integers(sums);
      k = {1, sums.back() + 1, k[2], k[3]};
    }
    if (has(kCacheRows)) k[0] += 2;
    lay_out(call, q, k, seed_);
  }

  void lengths(Call& call) {
    if (has(kLengths)) call.kv_lengths = integers(each_batch(call, 0, call.pairs[3]));
    if (has(kStarts)) call.kv_starts = integers(each_batch(call, 0, 3));
    if (has(kCacheRows))
      call.cache_batch_idx = integers(each_batch(call, 0, call.k.shape()[0] - 1));
    if (!has(kPacked) || draws_.chance(0.5)) return;
    call.seqused_q = integers(each_batch(call, 0, call.pairs[2]));
    call.seqused_k = integers(each_batch(call, 0, call.pairs[3]));
  }

  void band(Call& call) {
    if (!has(kWindow)) return;
    call.scalars.left = draws_.chance(0.3) ? core::Band::kUnbounded : draws_.between(0, 3);
    call.scalars.right = draws_.chance(0.3) ? core::Band::kUnbounded : draws_.between(0, 2);
    call.scalars.alignment = core::Alignment(draws_.between(0, 3));
    if (call.scalars.alignment == core::Alignment::kOffset)
      call.scalars.offset = draws_.between(-3, 3);
    if (call.scalars.alignment == core::Alignment::kOffsets)
      call.offsets = integers(each_batch(call, -3, 3));
  }

  void pairs(Call& call) {
    if (has(kMask)) {
      call.mask = pair_array(call, DType::kBool, unsigned(draws_.between(0, 15)));
      call.mask.fill([&](const Index4&) { return draws_.chance(0.7); });
    }
    if (has(kBias)) {
      call.bias = pair_array(call, DType::kFloat64, unsigned(draws_.between(0, 15)));
      call.bias.fill(
          [&](const Index4&) { return draws_.chance(1 / 6.) ? -kInf : draws_.normal(); });
    }
  }

  void heads(Call& call) {
    const std::int64_t heads = call.scalars.heads;
    if (has(kSink)) {
      call.sink = Array(DType::kFloat64, {heads, 1, 1, 1});
      call.sink.fill([&](const Index4&) { return draws_.normal(); });
    }
    if (has(kAlibi)) {
      call.alibi = Array(DType::kFloat64, {call.scalars.batch, heads, 1, 1});
      call.alibi.fill([&](const Index4&) { return 0.5 * draws_.normal(); });
    }
  }

  void state(Call& call) {
    call.state_out = Array(DType::kFloat64, call.out.shape());
    call.state_lse = Array(DType::kFloat64, call.lse.shape());
    call.state_lse.fill([&](const Index4&) {
      if (draws_.chance(0.25)) return draws_.chance(0.5) ? kInf : -kInf;
      return draws_.normal();
    });
    call.state_out.fill([&](const Index4& i) {
      return std::isinf(call.state_lse.at(i[0], i[2], i[1])) ? kNan : draws_.normal();
    });
  }

  unsigned options_;
  std::uint64_t seed_;
  core::Draws draws_;
};

inline Call call_with(unsigned options, std::uint64_t seed) {
  return OptionWriter(options, seed).write();
}

}  // namespace tessera::test
