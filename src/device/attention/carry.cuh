// The state that a call starts from: (out, lse) of other keys, both in float32, merged into rows
// that are finished. Each of the two counts as much as its sum of exp(score).
#pragma once
#include <isa/math.cuh>

#include "device/attention/score.cuh"

namespace tessera::device {

// w x, but an infinity counts however small its weight.
TS_DEVICE float weighed(float w, float x) { return w == 0 && isa::abs(x) == kInfinity ? x : w * x; }

// How a finished row and its state share: out = keys o + state o'.
struct Shares {
  float keys, state, lse;
  bool none;  // there is no state: the row stays as it is

  // Both infinities of a state's lse mean that no key was seen, whatever its out holds; a row
  // without keys is its state.
  TS_DEVICE Shares(float mine, float theirs)
      : keys(1), state(0), lse(mine), none(isa::abs(theirs) == kInfinity) {
    if (none) return;
    lse = theirs;
    keys = 0;
    state = 1;
    if (mine == -kInfinity) return;
    const float top = isa::max(mine, theirs);  // of a number and a NaN the number
    const float a = isa::exp2(kLog2e * (mine - top)), b = isa::exp2(kLog2e * (theirs - top));
    keys = a / (a + b);
    state = b / (a + b);
    lse = top + isa::log2(a + b) * kLn2;
  }
};

// The states of one head of one sequence.
struct Carried {
  const ForwardParams& p;
  const Sequence& s;
  int head;

  TS_DEVICE explicit Carried(const Head& h) : p(h.p), s(h.s), head(h.head) {}

  TS_DEVICE float lse(i64 i) const {
    const i64* stride = p.state_lse.stride;
    const i64 at = s.q_batch * stride[0] + head * stride[1] + (s.q_begin + i) * stride[2];
    return isa::load(static_cast<const float*>(p.state_lse.data) + at);
  }
  TS_DEVICE float out(i64 i, int column) const {
    const i64* stride = p.state_out.stride;
    const i64 at =
        s.q_batch * stride[0] + (s.q_begin + i) * stride[1] + head * stride[2] + column * stride[3];
    return isa::load(static_cast<const float*>(p.state_out.data) + at);
  }
  // The element of row i whose own is x.
  TS_DEVICE float merged(const Shares& shares, float x, i64 i, int column) const {
    if (shares.none) return x;
    return weighed(shares.keys, x) + weighed(shares.state, out(i, column));
  }
};

}  // namespace tessera::device
