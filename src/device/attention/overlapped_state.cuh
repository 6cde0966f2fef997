// Online softmax of a warp's 16 rows while the tensor core still adds to o: what exponents are
// measured from, the sum l of weights, the sum o of weighted values, and what o must be multiplied
// by before the next weights are. A lane holds two rows, and of sums of weights its share.
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
  static constexpr float kNowhere = State<columns>::kNowhere;

  WarpgroupSums<columns> o;
  float from[2], l[2];  // as in State
  float rounded[2];     // the sum of the weights as o has them, in 16 bits, which divides o
  float shrink[2];
  bool grown;

  // Of no key.
  TS_DEVICE OverlappedState() { clear(); }
  TS_DEVICE void clear() {
    o.clear();
    grown = false;
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      from[h] = kNowhere;
      l[h] = rounded[h] = 0;
      shrink[h] = 1;
    }
  }

  // S -> P = 2^(unit S - unit m). Does not touch o.
  template <class S> TS_DEVICE void absorb(S& s, float unit) {
    float top[2] = {-kInfinity, -kInfinity};
    TS_UNROLL for (int e = 0; e < s.size; ++e) top[S::half(e)] = isa::max(top[S::half(e)], s[e]);
    bool outgrown = false;
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      outgrown = outgrown || isa::fma(top[h], unit, -from[h]) > kSlack;
    }
    grown = isa::any(outgrown);
    if (grown) raise(top, unit);
    TS_UNROLL for (int e = 0; e < s.size; ++e) {
      s[e] = isa::exp2(isa::fma(s[e], unit, -from[S::half(e)]));
      l[S::half(e)] += s[e];
    }
  }
  TS_DEVICE void raise(const float (&top)[2], float unit) {
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      const float next = isa::max(from[h], largest_of_row(top[h]) * unit);
      shrink[h] = isa::exp2(from[h] - next);
      from[h] = next;
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

  // The largest score of a row in units of log2, to the slack; -inf if it has seen no key.
  TS_DEVICE float level(int half) const { return from[half] == kNowhere ? -kInfinity : from[half]; }

  // Adds the sink to the denominator and divides by it; gives the logarithm of the sum. A row
  // without keys gives zeros.
  TS_DEVICE void finish(float sink, float (&lse)[2]) {
    float inverse[2];
    TS_UNROLL for (int h = 0; h < 2; ++h) {
      l[h] = sum_of_row(l[h]);
      const Closing c = closing(from[h] * kLn2, l[h], sum_of_row(rounded[h]), sink);
      inverse[h] = c.inverse;
      lse[h] = c.lse;
    }
    TS_UNROLL for (int e = 0; e < o.size; ++e) o[e] *= inverse[o.half(e)];
  }
};

}  // namespace tessera::device
