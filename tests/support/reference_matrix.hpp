// The definition a second time, from the text of the contract and sharing no code with the library:
// lists of rows, the whole matrix, no maximum taken off the scores, long double throughout.
#pragma once
#include <array>
#include <set>

#include "core/philox.hpp"
#include "support/reference_call.hpp"

namespace tessera::test {

class MatrixDefinition {
 public:
  explicit MatrixDefinition(const Call& call)
      : out(DType::kFloat64, call.out.shape()),
        lse(DType::kFloat64, call.lse.shape()),
        call_(call),
        p_(call.scalars) {
    out.fill([](const Index4&) { return 0; });
    lse.fill([](const Index4&) { return -kInf; });
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      list_rows(b);
      for (std::int64_t h = 0; h < p_.heads; ++h)
        for (std::int64_t i = 0; i < std::int64_t(q_rows_.size()); ++i) row(b, h, i);
    }
  }

  Array out, lse;
  std::set<std::array<std::int64_t, 3>> seen;   // key rows [batch, row, kv head] that some row sees
  std::set<std::array<std::int64_t, 4>> pairs;  // [b, h, i, j] that are visible
  double score_max = 0;

 private:
  using Row = std::array<std::int64_t, 2>;

  static std::int64_t integer(const Array& a, std::int64_t n, std::int64_t m = 0) {
    return std::int64_t(a.at(n, m));
  }
  static void shorten(std::vector<Row>& rows, const Array& lengths, std::int64_t b) {
    if (lengths.present() && std::size_t(integer(lengths, b)) < rows.size())
      rows.resize(std::size_t(integer(lengths, b)));
  }

  void list_rows(std::int64_t b) {
    q_rows_.clear();
    k_rows_.clear();
    const bool packed_q = call_.cu_seqlens_q.present(), packed_k = call_.cu_seqlens_k.present();
    const std::int64_t q_end = packed_q ? integer(call_.cu_seqlens_q, b + 1) : call_.q.shape()[1];
    for (std::int64_t n = packed_q ? integer(call_.cu_seqlens_q, b) : 0; n < q_end; ++n)
      q_rows_.push_back({packed_q ? 0 : b, n});
    if (call_.block_table.present()) {
      for (std::int64_t page = 0; page < call_.block_table.shape()[1]; ++page)
        for (std::int64_t slot = 0; slot < call_.k.shape()[1]; ++slot)
          k_rows_.push_back({integer(call_.block_table, b, page), slot});
    } else {
      const std::int64_t end = packed_k ? integer(call_.cu_seqlens_k, b + 1) : call_.k.shape()[1];
      const bool moved = call_.cache_batch_idx.present();
      for (std::int64_t n = packed_k ? integer(call_.cu_seqlens_k, b) : 0; n < end; ++n)
        k_rows_.push_back({packed_k ? 0 : moved ? integer(call_.cache_batch_idx, b) : b, n});
    }
    shorten(q_rows_, call_.seqused_q, b);
    shorten(k_rows_, call_.seqused_k, b);
    shorten(k_rows_, call_.kv_lengths, b);
    diagonal_ = p_.offset;
    if (p_.alignment == core::Alignment::kTopLeft) diagonal_ = 0;
    if (p_.alignment == core::Alignment::kBottomRight)
      diagonal_ = std::int64_t(k_rows_.size()) - std::int64_t(q_rows_.size());
    if (p_.alignment == core::Alignment::kOffsets) diagonal_ = integer(call_.offsets, b);
  }

  // An array [b, h, i, j] whose dimensions of size 1 hold for all.
  static double at_pair(const Array& a, const Index4& pair) {
    const auto pick = [&](std::size_t n) { return a.shape()[n] == 1 ? 0 : pair[n]; };
    return a.at(pick(0), pick(1), pick(2), pick(3));
  }

  bool sees(const Index4& pair) const {
    const auto [b, h, i, j] = pair;
    const std::int64_t distance = j - (i + diagonal_);
    if (distance > p_.right || -distance > p_.left) return false;
    if (call_.mask.present() && at_pair(call_.mask, pair) == 0) return false;
    if (call_.bias.present() && at_pair(call_.bias, pair) == -kInf) return false;
    return !call_.kv_starts.present() || j >= integer(call_.kv_starts, b);
  }

  long double score(const Index4& pair) const {
    const auto [b, h, i, j] = pair;
    const auto [qb, qn] = q_rows_[std::size_t(i)];
    const auto [kb, kn] = k_rows_[std::size_t(j)];
    long double s = 0;
    for (std::int64_t d = 0; d < p_.dim; ++d)
      s += static_cast<long double>(call_.q.at(qb, qn, h, d)) * call_.k.at(kb, kn, key_head(h), d);
    s *= p_.scale;
    if (p_.softcap != 0) s = p_.softcap * std::tanh(s / p_.softcap);
    if (call_.alibi.present()) s -= call_.alibi.at(b, h) * double(std::abs(i + diagonal_ - j));
    return call_.bias.present() ? s + at_pair(call_.bias, pair) : s;
  }

  std::int64_t key_head(std::int64_t h) const { return h / (p_.heads / p_.kv_heads); }

  long double dropped(const Index4& pair) const {
    const auto [b, h, i, j] = pair;
    const auto& [p, seed, offset] = p_.dropout;
    const auto words = core::philox(
        {std::uint32_t(j) / 4, std::uint32_t(i), std::uint32_t(b * p_.heads + h), offset},
        {std::uint32_t(seed & 0xffffffffu), std::uint32_t(seed >> 32)});
    const bool kept = words[std::size_t(j & 3)] >= std::llround(std::ldexp(double(p), 32));
    return kept ? 1 / (1 - static_cast<long double>(p)) : 0;
  }

  void row(std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto [qb, qn] = q_rows_[std::size_t(i)];
    long double total =
        call_.sink.present() ? std::exp(static_cast<long double>(call_.sink.at(h))) : 0;
    std::vector<long double> sums(std::size_t(p_.value_dim));
    const auto add = [&](const Array& values, const Index4& at, long double weight) {
      for (std::int64_t d = 0; d < p_.value_dim; ++d)
        sums[std::size_t(d)] += weight * values.at(at[0], at[1], at[2], d);
    };
    if (call_.state_lse.present() && std::isfinite(call_.state_lse.at(qb, h, qn))) {
      const auto weight = std::exp(static_cast<long double>(call_.state_lse.at(qb, h, qn)));
      total += weight;
      add(call_.state_out, {qb, qn, h, 0}, weight);
    }
    for (std::int64_t j = 0; j < std::int64_t(k_rows_.size()); ++j) {
      if (!sees({b, h, i, j})) continue;
      const auto [kb, kn] = k_rows_[std::size_t(j)];
      const long double s = score({b, h, i, j}), weight = std::exp(s);
      seen.insert({kb, kn, key_head(h)});
      pairs.insert({b, h, i, j});
      score_max = std::max(score_max, std::abs(double(s)));
      total += weight;
      add(call_.v, {kb, kn, key_head(h), 0}, weight * dropped({b, h, i, j}));
    }
    if (total == 0) return;
    lse.set({qb, h, qn, 0}, double(std::log(total)));
    for (std::int64_t d = 0; d < p_.value_dim; ++d)
      out.set({qb, qn, h, d}, double(sums[std::size_t(d)] / total));
  }

  const Call& call_;
  const core::Problem& p_;
  std::int64_t diagonal_ = 0;
  std::vector<Row> q_rows_, k_rows_;
};

}  // namespace tessera::test
