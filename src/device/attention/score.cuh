// From <q, k> to a score, and which pairs see each other.
#pragma once
#include <isa/convert.cuh>
#include <isa/math.cuh>
#include <isa/memory.cuh>

#include "device/attention/sequence.cuh"

namespace tessera::device {

// Near 0 the series, where the other form would lose the digits that its 1 has.
TS_DEVICE float tanh(float y) {
  const float z = y * y;
  if (z > 0.25f) return 1 - 2 / (1 + isa::exp2(2 * kLog2e * y));
  float sum = 21844.f / 6081075;
  sum = isa::fma(sum, z, -1382.f / 155925);
  sum = isa::fma(sum, z, 62.f / 2835);
  sum = isa::fma(sum, z, -17.f / 315);
  sum = isa::fma(sum, z, 2.f / 15);
  sum = isa::fma(sum, z, -1.f / 3);
  return isa::fma(sum * z, y, y);
}

// One head of one sequence.
struct Head {
  const ForwardParams& p;
  const Sequence& s;
  int head;

  TS_DEVICE i64 pair(const View& v, i64 i, i64 j) const {
    return s.index * v.stride[0] + head * v.stride[1] + i * v.stride[2] + j * v.stride[3];
  }

  // Band, lengths and boolean mask.
  TS_DEVICE bool sees(i64 i, i64 j) const {
    if (!s.keys.contains(j) || !s.band.seen_by(i).contains(j)) return false;
    const View& mask = p.score.mask;
    return !mask.data || isa::load(static_cast<const u8*>(mask.data) + pair(mask, i, j)) != 0;
  }

  TS_DEVICE float bias(i64 i, i64 j) const {
    const View& v = p.score.bias;
    const i64 at = pair(v, i, j);
    switch (p.score.bias_type) {
      case Type::kFloat16:
        return isa::to_float(isa::load(static_cast<const Float16*>(v.data) + at));
      case Type::kBfloat16:
        return isa::to_float(isa::load(static_cast<const Bfloat16*>(v.data) + at));
      default: return isa::load(static_cast<const float*>(v.data) + at);
    }
  }

  TS_DEVICE float slope() const {
    const View& v = p.score.alibi;
    const i64 at = s.index * v.stride[0] + head * v.stride[1];
    return isa::load(static_cast<const float*>(v.data) + at);
  }

  // The logit that is added to the denominator; -inf where there is none.
  TS_DEVICE float sink() const {
    const View& v = p.score.sink;
    if (!v.data) return -kInfinity;
    return isa::load(static_cast<const float*>(v.data) + head * v.stride[0]);
  }

  // s -> softcap tanh(s / softcap) - slope |i + offset - j| + bias, for a pair that is visible but
  // for a bias of -inf.
  TS_DEVICE float adjusted(float x, i64 i, i64 j) const {
    const float cap = p.score.softcap;
    if (cap != 0) x = cap * tanh(x / cap);
    const float added = p.score.bias.data ? bias(i, j) : 0;
    if (added == -kInfinity) return -kInfinity;
    if (p.score.alibi.data) x -= slope() * isa::abs(float(i + s.band.offset - j));
    return x + added;
  }
};

}  // namespace tessera::device
