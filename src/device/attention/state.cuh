// Online softmax of a warp's query rows: what exponents are measured from, the sum l of weights and
// the sum o of weighted values. A lane holds one row of each half, and of l its share. Source:
// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once
#include <isa/math.cuh>

#include "device/params.cuh"
#include "device/tile/multiply.cuh"
#include "device/tile/parts.cuh"

namespace tessera::device {

// A row that has seen no key keeps m = -inf; measured from 0 its exponents are all -inf.
TS_DEVICE float base(float m) { return m == -kInfinity ? 0.f : m; }

TS_DEVICE float largest_of_row(float x) {
  x = isa::max(x, isa::shuffle_xor(x, 1));
  return isa::max(x, isa::shuffle_xor(x, 2));
}
TS_DEVICE float sum_of_row(float x) {
  x += isa::shuffle_xor(x, 1);
  return x + isa::shuffle_xor(x, 2);
}

// What ends a row: the factor of its sum o, and the logarithm of its sum of e^score.
struct Closing {
  float inverse, lse;
};
// m is the largest score, l the sum of weights and `weights` that of the weights as o has them; the
// sink is added to the denominator. Without keys the factor is 0.
TS_DEVICE Closing closing(float m, float l, float weights, float sink) {
  const float top = isa::max(l == 0 ? -kInfinity : m, sink);
  const float of_keys = l == 0 ? 0.f : l * isa::exp2(kLog2e * (m - base(top)));
  const float all = of_keys + isa::exp2(kLog2e * (sink - base(top)));
  return {weights == 0 ? 0.f : of_keys / all / weights, base(top) + isa::log2(all) * kLn2};
}

// Weights are 2^room times what the largest score of a row says.
template <int columns, int blocks = 1, int room = 0> struct State {
  static constexpr int kHalves = 2 * blocks;
  // While no row outgrows its maximum by 2^8 the old one stays: weights then are at most 256, which
  // 16 bits hold as well as 1, and most steps need not touch o.
  static constexpr float kSlack = 8;
  // Below what any score is measured from; 2^-kNowhere would be infinite, and any key outgrows it.
  static constexpr float kNowhere = -0x1p100f;

  Sums<columns, blocks> o;
  float from[kHalves];  // unit m - room, m the largest score of a row when it was last raised
  float l[kHalves];
  // The sum of the weights as o has them. It divides o: then rounding weights moves an average of
  // values, not its scale, and a row of one key is exact. lse comes from l.
  float rounded[kHalves];

  // Of no key.
  TS_DEVICE void clear() {
    o.clear();
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      from[h] = kNowhere;
      l[h] = rounded[h] = 0;
    }
  }

  // S -> P = 2^(unit S - from), and what is known so far measured from the same. A lane looks
  // at its own scores alone: some row has outgrown its maximum iff some lane sees one that has, and
  // only then do lanes exchange what they see.
  template <class S> TS_DEVICE void absorb(S& s, float unit) {
    float top[kHalves], most = -kInfinity, sum[kHalves];
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int h = S::half(e);
      top[h] = S::leads(e) ? s[e] : isa::max(top[h], s[e]);
    }
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      most = isa::max(most, isa::fma(top[h], unit, -from[h]));
    }
    if (isa::any(most > kSlack + room)) raise(top, unit);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      const int h = S::half(e);
      s[e] = isa::exp2(isa::fma(s[e], unit, -from[h]));
      sum[h] = S::leads(e) ? s[e] : sum[h] + s[e];
    }
    // Of one step: a chain of all keys would round too often.
    TS_UNROLL for (int h = 0; h < kHalves; ++h) l[h] += sum[h];
  }

  // `top`: what the lane has seen of its rows. A row that has not outgrown its maximum stays as it
  // is, whatever the others do.
  TS_DEVICE void raise(const float (&top)[kHalves], float unit) {
    float shrink[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      const float seen = largest_of_row(top[h]);
      shrink[h] = 1;
      if (!(isa::fma(seen, unit, -from[h]) > kSlack + room)) continue;
      const float next = seen * unit - room;
      shrink[h] = isa::exp2(from[h] - next);
      from[h] = next;
      l[h] *= shrink[h];
      rounded[h] *= shrink[h];
    }
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= shrink[o.half(e)];
  }

  // The largest score of a row in units of log2, to the slack; -inf if it has seen no key.
  TS_DEVICE float level(int half) const {
    return from[half] == kNowhere ? -kInfinity : from[half] + room;
  }

  // The weights of one step, as they are multiplied.
  template <class T, int keys> TS_DEVICE void count(const isa::Registers<u32, keys>& weights) {
    TS_UNROLL for (int i = 0; i < weights.size; ++i) rounded[o.half(2 * i)] +=
        isa::to_float(T{u16(weights[i])}) + isa::to_float(T{u16(weights[i] >> 16)});
  }
  template <class T, int keys> TS_DEVICE void count(const Parts<T, keys>& weights) {
    TS_UNROLL for (int n = 0; n < weights.kCount; ++n) count<T>(weights.part[n]);
  }

  // The same where all weights are multiplied as they are.
  TS_DEVICE void count_all() { TS_UNROLL for (int h = 0; h < kHalves; ++h) rounded[h] = l[h]; }

  // Adds the sink to the denominator and divides by it; returns the logarithm of the sum. A row
  // without keys gives zeros.
  struct Finished {
    float lse[kHalves];
  };
  TS_DEVICE Finished finish(float sink) {
    Finished result;
    float inverse[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      l[h] = sum_of_row(l[h]);
      const Closing c = closing(from[h] * kLn2, l[h], sum_of_row(rounded[h]), sink);
      inverse[h] = c.inverse;
      result.lse[h] = c.lse;
    }
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= inverse[o.half(e)];
    return result;
  }
};

}  // namespace tessera::device
