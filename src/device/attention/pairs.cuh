// Scores of a warp's rows against a tile of keys, changed and hidden pair by pair. Places are found
// once for each row; within the tile they are 32-bit numbers.
#pragma once
#include "device/attention/score.cuh"

namespace tessera::device {

template <class S> struct TilePairs {
  const Head& head;
  i64 first_row, first_key;
  int begin[S::kHalves], end[S::kHalves];  // columns that the band and the lengths show

  // `rows` of the sequence are the warp's, `keys` those of the tile.
  TS_DEVICE TilePairs(const Head& h, Range rows, Range keys)
      : head(h), first_row(rows.begin), first_key(keys.begin) {
    TS_UNROLL for (int x = 0; x < S::kHalves; ++x) {
      Range seen = head.s.keys & head.s.band.seen_by(query(x)) & keys;
      if (query(x) >= head.s.queries || seen.empty()) seen = {first_key, first_key};
      begin[x] = int(seen.begin - first_key);
      end[x] = int(seen.end - first_key);
    }
  }

  TS_DEVICE i64 query(int half) const { return first_row + S::row_of_half(half); }
  TS_DEVICE bool visible(int e) const {
    return begin[S::half(e)] <= S::column(e) && S::column(e) < end[S::half(e)];
  }

  // softcap tanh(scale s / softcap) - slope |i + offset - j| + bias.
  TS_DEVICE void adjust(S& s) const {
    const ScoreParams& p = head.p.score;
    TS_UNROLL for (int e = 0; e < s.size; ++e) s[e] *= p.factor;
    if (p.softcap != 0) {
      TS_UNROLL for (int e = 0; e < s.size; ++e) s[e] = p.softcap * tanh(s[e] / p.softcap);
    }
    if (p.alibi.data) {
      const float slope = head.slope();
      TS_UNROLL for (int e = 0; e < s.size; ++e) s[e] -= slope * isa::abs(float(distance(e)));
    }
    if (!p.bias.data) return;
    switch (p.bias_type) {
      case Type::kFloat16: return add_bias<Float16>(s);
      case Type::kBfloat16: return add_bias<Bfloat16>(s);
      default: return add_bias<float>(s);
    }
  }
  // A hidden pair becomes -inf, whatever its score has become.
  TS_DEVICE void hide(S& s) const {
    const View& mask = head.p.score.mask;
    const u8* row[S::kHalves];
    if (mask.data) rows_of(mask, row);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      bool seen = visible(e);
      if (mask.data && seen) seen = isa::load(row[S::half(e)] + S::column(e) * mask.stride[3]) != 0;
      if (!seen) s[e] = -kInfinity;
    }
  }

 private:
  TS_DEVICE i64 distance(int e) const {
    return query(S::half(e)) + head.s.band.offset - first_key - S::column(e);
  }
  template <class E> TS_DEVICE void rows_of(const View& v, const E* (&row)[S::kHalves]) const {
    TS_UNROLL for (int x = 0; x < S::kHalves; ++x) row[x] =
        static_cast<const E*>(v.data) + head.pair(v, query(x), first_key);
  }
  // A bias of -inf hides a pair as the mask does.
  template <class E> TS_DEVICE void add_bias(S& s) const {
    const View& bias = head.p.score.bias;
    const E* row[S::kHalves];
    rows_of(bias, row);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      if (!visible(e)) continue;
      const float x = isa::to_float(isa::load(row[S::half(e)] + S::column(e) * bias.stride[3]));
      s[e] = x == -kInfinity ? x : s[e] + x;
    }
  }
};

}  // namespace tessera::device
