// The words of the forward on pairs of bfloat16, for AVX512-BF16: two dimensions of a score, or two
// keys of a sum, share a lane of 32 bits. Products are exact and sums float32; q is not scaled
// before the product, which would round it again; P alone is rounded.
#if defined(TESSERA_CPU_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_PAIRS_INL_HPP
#undef TESSERA_CPU_PAIRS_INL_HPP
#else
#define TESSERA_CPU_PAIRS_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/decode_pairs-inl.hpp"
#include "cpu/isa/avx512bf16-inl.hpp"
#include "cpu/isa/x86.hpp"
#include "cpu/pair-packing-inl.hpp"
#include "cpu/standard-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

HWY_INLINE V broadcast(const Pair* x) {
  float both;
  std::memcpy(&both, x, sizeof both);
  return hn::Set(d, both);
}

HWY_INLINE V multiply_add(const Pair*, V a, V b, V c) { return dot(a, b, c); }

// ---- Scores: in units of 1, unlike those of the float32 tiles ----

template <int kHalves>
HWY_INLINE void multiply_keys(V (&s)[kKeyTile][2], const Pair* const (&k)[kKeyTile], const float* q,
                              const Problem& p) {
  multiply_chains<kHalves>(s, k, q, divide_up(p.dim, 2), longest_chain(p) / 2);
}

// ---- Weights ----

// 2^x as exp2 of the tiles, with the same promises (relative error 1.7e-7) and half the
// multiplications: x = n / 32 + r, 2^(n / 32) is a power of two times one of 32 numbers, and
// |r| <= 1/64 leaves a minimax of degree 2 whose constant is held at 1.
class TableExp2 {
 public:
  HWY_INLINE TableExp2() : low_(_mm512_load_ps(kTable)), high_(_mm512_load_ps(kTable + 16)) {}

  HWY_INLINE V operator()(V x) const {
    // The sum has no room for less than 1/32: its last five bits are n mod 32.
    const V magic = hn::Set(d, 393216.f);  // 1.5 * 2^18
    const V shifted = hn::Add(x, magic), whole = hn::Sub(shifted, magic), r = hn::Sub(x, whole);
    const V table{_mm512_permutex2var_ps(low_, _mm512_castps_si512(shifted.raw), high_)};
    const V p = hn::MulAdd(hn::Set(d, 0.240226497f), r, hn::Set(d, 0.69315733f));
    const V fraction = hn::MulAdd(hn::Mul(table, r), p, table);
    // SDM, VSCALEFPS: times 2^floor(whole); 0 for whole = -inf, whatever the fraction.
    return V{_mm512_scalef_ps(fraction.raw, whole.raw)};
  }

 private:
  HWY_ALIGN static constexpr float kTable[32] = {
      1.f,         1.02189715f, 1.04427378f, 1.0671404f,  1.09050773f, 1.11438674f, 1.13878863f,
      1.16372486f, 1.18920712f, 1.21524736f, 1.24185781f, 1.26905096f, 1.29683955f, 1.32523664f,
      1.35425555f, 1.38390988f, 1.41421356f, 1.44518081f, 1.47682615f, 1.50916443f, 1.54221083f,
      1.57598085f, 1.61049033f, 1.64575548f, 1.68179283f, 1.7186193f,  1.75625216f, 1.79470908f,
      1.83400809f, 1.87416763f, 1.91520656f, 1.95714412f,
  };
  __m512 low_, high_;
};

// P = 2^(unit S - base) in place, now [keys / 2][kStrip] pairs; sum = the sum of each row, before
// P is rounded.
template <int kHalves>
HWY_INLINE void weigh_pairs(float* s, std::int64_t keys, float unit, const V (&base)[2],
                            V (&sum)[2]) {
  const TableExp2 exp2;
  const __m512i order = order_of_pairs(16);
  const V factor = hn::Set(d, unit);
  if (keys % 2 != 0) std::fill_n(s + keys * kStrip, kStrip, -kInfinity);
  float* to = s;
  for (std::int64_t j = 0; j < keys; j += 2, s += 2 * kStrip, to += kStrip)
    for (int half = 0; half < kHalves; ++half) {
      const auto weight = [&](const float* at) {
        return exp2(hn::MulSub(hn::Load(d, at + half * N), factor, base[half]));
      };
      const V low = weight(s), high = weight(s + kStrip);
      sum[half] = hn::Add(sum[half], hn::Add(low, high));
      _mm512_store_si512(to + half * N, _mm512_permutexvar_epi16(order, round_both(low, high)));
    }
}

// ---- The forward ----

// One step of a score multiplies two dimensions.
struct Pairs {
  using Packer = PairPacker;
  struct Session {};

  static constexpr std::int64_t steps(std::int64_t dim) { return divide_up(dim, 2); }

  static HWY_INLINE void load_query(float* to, const Problem& p, void* at) {
    copy_row(reinterpret_cast<Pair*>(to), p.q, at, p.dim, 2 * steps(p.dim));
  }

  static float unit(const Problem& p) { return log2_scale(p); }
  template <int kHalves> static HWY_NOINLINE void scale(float* s, std::int64_t keys, float unit) {
    for (std::int64_t i = 0; i < keys * kStrip; i += N)
      hn::Store(hn::Mul(hn::Load(d, s + i), hn::Set(d, unit)), d, s + i);
  }

  static void settle(Strip&, const Problem&) {}

  // P = 2^(unit S - base), below `lead` rows of zeros.
  template <int kHalves>
  static HWY_INLINE void weigh(float* s, Range rows, float unit, const V (&base)[2], V (&sum)[2]) {
    if (rows.begin != 0) std::fill_n(s, rows.begin * kStrip, -kInfinity);
    weigh_pairs<kHalves>(s, rows.end, unit, base, sum);
  }
};

HWY_NOINLINE inline void forward_pairs(Call& call, int worker) {
  call.plan.arithmetic == plan::Arithmetic::kPairs ? forward<Pairs>(call, worker)
                                                   : forward<Float32>(call, worker);
}

// The row of AVX512-BF16 in the table of targets.
// On Sapphire Rapids vdpbf16ps is so slow that float32 wins: 1070 against 1620 GFLOP/s (16 cores, D
// 64, N 2048). On Zen 4 it is as fast as a multiply-add, and does two.
inline Target pairs_target(const char* name, bool (*present)()) {
  Target row = target(name, present);
  row.preferred = [] { return !x86::features().intel; };
  row.bfloat16 = plan::Arithmetic::kPairs;
  row.forward = forward_pairs;
  row.decode[0] = decode_pairs;
  return row;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
