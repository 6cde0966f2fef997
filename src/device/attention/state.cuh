// Online softmax of a warp's query rows: the largest score m, the sum l of weights and the sum o of
// weighted values. A lane holds one row of each half, and of l its share. Source:
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

template <int columns, int blocks = 1> struct State {
  static constexpr int kHalves = 2 * blocks;
  // While no row outgrows its maximum by 2^8 the old one stays: weights then are at most 256, which
  // 16 bits hold as well as 1, and most steps need not touch o.
  static constexpr float kSlack = 8;

  Sums<columns, blocks> o;
  float m[kHalves], l[kHalves];
  // The sum of the weights as o has them. It divides o: then rounding weights moves an average of
  // values, not its scale, and a row of one key is exact. lse comes from l.
  float rounded[kHalves];

  // Of no key.
  TS_DEVICE void clear() {
    o.clear();
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      m[h] = -kInfinity;
      l[h] = rounded[h] = 0;
    }
  }

  // S -> P = 2^(unit S - unit m), and what is known so far measured from the same m.
  template <class S> TS_DEVICE void absorb(S& s, float unit) {
    float top[kHalves], from[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) top[h] = m[h];
    TS_UNROLL for (int e = 0; e < s.size; ++e) top[S::half(e)] = isa::max(top[S::half(e)], s[e]);
    bool outgrown = false;
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      top[h] = largest_of_row(top[h]);
      outgrown = outgrown || (top[h] - m[h]) * unit > kSlack;
    }
    if (isa::any(outgrown)) raise(top, unit);
    TS_UNROLL for (int h = 0; h < kHalves; ++h) from[h] = base(m[h]) * unit;
    float sum[kHalves] = {};  // of one step: a chain of all keys would round too often
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      s[e] = isa::exp2(isa::fma(s[e], unit, -from[S::half(e)]));
      sum[S::half(e)] += s[e];
    }
    TS_UNROLL for (int h = 0; h < kHalves; ++h) l[h] += sum[h];
  }

  TS_DEVICE void raise(const float (&top)[kHalves], float unit) {
    float shrink[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      shrink[h] = 1;
      if (!((top[h] - m[h]) * unit > kSlack)) continue;
      shrink[h] = m[h] == -kInfinity ? 0.f : isa::exp2(m[h] * unit - base(top[h]) * unit);
      m[h] = top[h];
      l[h] *= shrink[h];
      rounded[h] *= shrink[h];
    }
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= shrink[o.half(e)];
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
  TS_DEVICE Finished finish(const ScoreParams& p, float sink) {
    Finished result;
    float inverse[kHalves];
    TS_UNROLL for (int h = 0; h < kHalves; ++h) {
      l[h] = sum_of_row(l[h]);
      const Closing c = closing(m[h] * p.natural, l[h], sum_of_row(rounded[h]), sink);
      inverse[h] = c.inverse;
      result.lse[h] = c.lse;
    }
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= inverse[o.half(e)];
    return result;
  }
};

}  // namespace tessera::device
