// Online softmax of a warp's 16 rows while the tensor core still adds to o: the largest score m,
// the sum l of weights, the sum o of weighted values, and what o must be multiplied by before the
// next weights are. A lane holds two rows, and of sums of weights its share.
#pragma once
#include <isa/math.cuh>

#include "device/attention/state.cuh"
#include "device/params.cuh"
#include "device/tile/warpgroup.cuh"

namespace tessera::device {

template <int columns> struct OverlappedState {
  static constexpr int kHalves = 2;
  // While no row outgrows its maximum by 2^8 the old one stays: weights then are at most 256, which
  // 16 bits hold as well as 1, and most steps need not touch o.
  static constexpr float kSlack = 8;

  WarpgroupSums<columns> o;
  float m[2], l[2];
  float rounded[2];  // the sum of the weights as o has them, in 16 bits, which divides o
  float shrink[2];
  bool grown;

  // Of no key.
  TS_DEVICE OverlappedState() { clear(); }
  TS_DEVICE void clear() {
    o.clear();
    grown = false;
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      m[h] = -kInfinity;
      l[h] = rounded[h] = 0;
      shrink[h] = 1;
    }
  }

  // S -> P = 2^(unit S - unit m). Does not touch o.
  template <class S> TS_DEVICE void absorb(S& s, float unit) {
    float top[2] = {m[0], m[1]};
    TS_UNROLL for (int e = 0; e < s.size; ++e) top[S::half(e)] = isa::max(top[S::half(e)], s[e]);
    bool outgrown = false;
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      top[h] = largest_of_row(top[h]);
      outgrown = outgrown || (top[h] - m[h]) * unit > kSlack;
    }
    grown = isa::any(outgrown);
    if (grown) raise(top, unit);
    const float from[2] = {base(m[0]) * unit, base(m[1]) * unit};
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      s[e] = isa::exp2(isa::fma(s[e], unit, -from[S::half(e)]));
      l[S::half(e)] += s[e];
    }
  }
  TS_DEVICE void raise(const float (&top)[2], float unit) {
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      shrink[h] = m[h] == -kInfinity ? 0.f : isa::exp2(m[h] * unit - base(top[h]) * unit);
      m[h] = top[h];
      l[h] *= shrink[h];
      rounded[h] *= shrink[h];
    }
  }
  // After the multiplications under way, before those of the last weights.
  TS_DEVICE void rescale() {
    if (!grown) return;
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= shrink[o.half(e)];
  }
  // The weights of one step, as they are multiplied.
  template <class T, int keys> TS_DEVICE void count(const WarpgroupWeights<T, keys>& weights) {
    TS_UNROLL for (int i = 0; i < weights.size; ++i) rounded[o.half(2 * i)] +=
        isa::to_float(T{u16(weights[i])}) + isa::to_float(T{u16(weights[i] >> 16)});
  }

  // Adds the sink to the denominator and divides by it; gives the logarithm of the sum. A row
  // without keys gives zeros.
  TS_DEVICE void finish(const ScoreParams& p, float sink, float (&lse)[2]) {
    float inverse[2];
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      l[h] = sum_of_row(l[h]);
      const Closing c = closing(m[h] * p.natural, l[h], sum_of_row(rounded[h]), sink);
      inverse[h] = c.inverse;
      lse[h] = c.lse;
    }
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= inverse[o.half(e)];
  }
};

}  // namespace tessera::device
