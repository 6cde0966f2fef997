// The two register micro-kernels and exp2, compiled once per target. A strip is two vectors of
// queries.
//
//   S^T tile   kKeyTile keys x one strip   a key is a broadcast, queries are lanes
//   O tile     a few rows x one panel      a weight is a broadcast, a panel is two vectors of V
//
// Lanes are queries in the softmax, so no reduction crosses lanes; K and V are read as they lie.
#if defined(TESSERA_CPU_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_TILES_INL_HPP
#undef TESSERA_CPU_TILES_INL_HPP
#else
#define TESSERA_CPU_TILES_INL_HPP
#endif

#include <hwy/highway.h>
#include <cstdint>
#include <limits>

#include "plan/plan.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D d;
constexpr int N = hn::MaxLanes(D());
constexpr plan::Tiles kTiles = plan::tiles_for(N);
constexpr int kStrip = int(kTiles.strip);  // queries
constexpr int kPanel = int(kTiles.panel);  // columns of V
constexpr int kKeyTile = int(kTiles.key_tile);
static_assert(kStrip == 2 * N && kPanel == 2 * N);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Sums and operands of an O tile, in registers; the rows of the O tiles of a strip:
//   lanes 16   16 + 3 of 32   8 8 8 8
//          8   12 + 3 of 16   5 5 6
//          4   12 + 3 of 16   4 4
constexpr int kRowTiles = N == 16 ? 4 : N == 8 ? 3 : N == 4 ? 2 : 1;
constexpr int row_tile_begin(int tile) { return tile * kStrip / kRowTiles; }

// 2^x for x <= 0: exactly 1 at 0, exactly 0 at -inf, NaN at NaN; relative error 3e-8. Minimax on
// [-1/2, 1/2] with the constant held at 1: a factor of 1.00000012 for "the maximum stayed" would
// compound over the blocks.
HWY_INLINE V exp2(V x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const V whole{_mm512_roundscale_ps(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
#else
  // At -127 the factor below is +0. A NaN passes the comparison.
  const V low = hn::Set(d, -127.f);
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  // 1.5 * 2^23 + 127: the sum has no room for a fraction, and ends in the exponent bits of 2^whole.
  const V magic = hn::Set(d, 12583039.f);
  const V shifted = hn::Add(x, magic), whole = hn::Sub(shifted, magic);
#endif
  const V f = hn::Sub(x, whole);
  V p = hn::Set(d, 0.000153458124f);
  for (const float c :
       {0.00133999309f, 0.00961848907f, 0.0555032864f, 0.240226462f, 0.693147182f, 1.f})
    p = hn::MulAdd(p, f, hn::Set(d, c));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return V{_mm512_scalef_ps(p.raw, whole.raw)};  // SDM, VSCALEFPS: 0 for whole = -inf, whatever p
#else
  const hn::RebindToUnsigned<D> bits;
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted))));
#endif
}

// tanh x = (1 - t) / (1 + t) with t = e^(-2|x|); near 0, where 1 - t cancels, the odd polynomial of
// least relative error (8e-8 in float32 on [-0.625, 0.625]; own minimax fit).
HWY_INLINE V tanh(V x) {
  const V magnitude = hn::Abs(x), one = hn::Set(d, 1.f);
  const V t = exp2(hn::Mul(hn::Set(d, -2.88539008f), magnitude));  // 2 log2(e)
  const V far = hn::CopySign(hn::Div(hn::Sub(one, t), hn::Add(one, t)), x);
  const V z = hn::Mul(x, x);
  V p = hn::Set(d, -5.70497837e-3f);
  for (const float c : {2.06390787e-2f, -5.37397122e-2f, 1.33314422e-1f, -3.33332819e-1f})
    p = hn::MulAdd(p, z, hn::Set(d, c));
  const V near = hn::MulAdd(hn::Mul(p, z), x, x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), near, far);
}

// The element of K in every lane, and c + a b: other types of elements have words of their own.
HWY_INLINE V broadcast(const float* x) { return hn::Set(d, *x); }
HWY_INLINE V multiply_add(const float*, V a, V b, V c) { return hn::MulAdd(a, b, c); }

// S^T = K Q^T for kKeyTile keys and the strip q [dim][kStrip], whose first kHalves vectors count.
template <int kHalves, class E>
HWY_INLINE void multiply_transposed(V (&s)[kKeyTile][2], const E* const (&k)[kKeyTile],
                                    const float* HWY_RESTRICT q, std::int64_t dim) {
  V sum[kKeyTile][kHalves];  // not s itself, which g++ 12 would store in every step: half the speed
  for (auto& row : sum)
    for (V& x : row) x = hn::Zero(d);
  for (std::int64_t i = 0; i < dim; ++i, q += kStrip) {
    V queries[kHalves];
    for (int half = 0; half < kHalves; ++half) queries[half] = hn::Load(d, q + half * N);
    for (int j = 0; j < kKeyTile; ++j) {
      const V key = broadcast(k[j] + i);
      for (int half = 0; half < kHalves; ++half)
        sum[j][half] = multiply_add(k[j], key, queries[half], sum[j][half]);
    }
  }
  for (int j = 0; j < kKeyTile; ++j)
    for (int half = 0; half < kHalves; ++half) s[j][half] = sum[j][half];
}

constexpr std::int64_t kLongestChain = 128;  // of products that are summed one after the other

// The same in parts of `chain` dimensions that are summed apart: the error of one long sum grows
// with it. Calls of its own keep the sums of a part in registers.
template <int kHalves, class E>
HWY_NOINLINE inline void multiply_part(V (&s)[kKeyTile][2], const E* const (&k)[kKeyTile],
                                       const float* HWY_RESTRICT q, std::int64_t dim) {
  multiply_transposed<kHalves>(s, k, q, dim);
}
template <int kHalves, class E>
HWY_NOINLINE inline void multiply_long(V (&s)[kKeyTile][2], const E* const (&k)[kKeyTile],
                                       const float* HWY_RESTRICT q, std::int64_t dim,
                                       std::int64_t chain) {
  multiply_part<kHalves>(s, k, q, chain);
  for (std::int64_t i = chain; i < dim; i += chain) {
    const E* rows[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) rows[j] = k[j] + i;
    V part[kKeyTile][2];
    multiply_part<kHalves>(part, rows, q + i * kStrip, dim - i < chain ? dim - i : chain);
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < kHalves; ++half) s[j][half] = hn::Add(s[j][half], part[j][half]);
  }
}

// Whichever of the two it takes.
template <int kHalves, class E>
HWY_INLINE void multiply_chains(V (&s)[kKeyTile][2], const E* const (&k)[kKeyTile], const float* q,
                                std::int64_t dim, std::int64_t chain) {
  if (dim <= chain) return multiply_transposed<kHalves>(s, k, q, dim);
  V sum[kKeyTile][2];  // not s itself, which would then be memory in the other branch too
  multiply_long<kHalves>(sum, k, q, dim, chain);
  for (int j = 0; j < kKeyTile; ++j)
    for (int half = 0; half < kHalves; ++half) s[j][half] = sum[j][half];
}

// The lanes of a half strip that a key lies within [low, high] of, in units of lanes.
HWY_INLINE hn::Mask<D> lanes_within(int half, float low, float high) {
  const V lane = hn::Iota(d, float(half * N));
  return hn::And(hn::Ge(lane, hn::Set(d, low)), hn::Le(lane, hn::Set(d, high)));
}

HWY_INLINE V hide_unless(hn::Mask<D> visible, V s) {
  return hn::IfThenElse(visible, s, hn::Set(d, -kInfinity));
}

// Some keys of one panel of V, one a step; the weights of the first lie `skipped` steps into P.
struct ValueRows {
  const float* v;
  std::int64_t stride, steps, skipped = 0;

  HWY_INLINE void load(std::int64_t step, V (&to)[2]) const {
    const float* const row = v + step * stride;
    to[0] = hn::LoadU(d, row), to[1] = hn::LoadU(d, row + N);
  }
};

// O = alpha O + P V for kRows rows and one panel: p [steps][kStrip], o [kRows][kPanel].
template <int kRows, class Rows>
HWY_INLINE void accumulate(float* HWY_RESTRICT o, const float* alpha, const float* HWY_RESTRICT p,
                           const Rows& values) {
  p += values.skipped * kStrip;
  V sum[kRows][2];
  for (auto& row : sum) row[0] = row[1] = hn::Zero(d);
  for (std::int64_t step = 0; step < values.steps; ++step, p += kStrip) {
    V v[2];
    values.load(step, v);
    for (int r = 0; r < kRows; ++r) {
      const V weight = hn::Set(d, p[r]);
      sum[r][0] = multiply_add(values.v, weight, v[0], sum[r][0]);
      sum[r][1] = multiply_add(values.v, weight, v[1], sum[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r, o += kPanel) {
    const V shrink = hn::Set(d, alpha[r]);
    hn::Store(hn::MulAdd(shrink, hn::Load(d, o), sum[r][0]), d, o);
    hn::Store(hn::MulAdd(shrink, hn::Load(d, o + N), sum[r][1]), d, o + N);
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
