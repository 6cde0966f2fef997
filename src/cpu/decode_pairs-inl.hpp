// Scores of decoding on pairs of bfloat16 (AVX512-BF16). Values are widened: weights of 16 bits
// would cost a row that stands alone more than docs/numerics.md allows it.
#if defined(TESSERA_CPU_DECODE_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_DECODE_PAIRS_INL_HPP
#undef TESSERA_CPU_DECODE_PAIRS_INL_HPP
#else
#define TESSERA_CPU_DECODE_PAIRS_INL_HPP
#endif

#include <cstdint>

#include "cpu/decode-inl.hpp"
#include "cpu/isa/avx512bf16-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// An element of a row that is multiplied in pairs.
struct Paired : core::Bfloat16 {};

// Scores in units of 1, since a scaled q would have to be rounded.
struct UnitScores {
  float scale;  // units of log2

  HWY_INLINE explicit UnitScores(const Problem& p) : scale(log2_scale(p)) {}
  HWY_INLINE V in_log2(V s) const { return hn::Mul(s, hn::Set(d, scale)); }
  HWY_INLINE V above(V base, V s) const { return hn::MulSub(s, hn::Set(d, scale), base); }
};

template <> struct Products<Paired> {
  using Scores = UnitScores;

  static constexpr std::int64_t steps(std::int64_t dim) { return dim / 2; }

  static HWY_INLINE void load_query(float* to, const Problem& p, const void* at) {
    const auto* const from = static_cast<const Paired*>(at);
    for (std::int64_t i = 0; i < p.dim; ++i)
      reinterpret_cast<Paired*>(to)[i] = from[i * p.q.stride[3]];
  }

  template <int kRows>
  static HWY_INLINE void add(V (&part)[kRows], const Paired* key, const float* HWY_RESTRICT q,
                             std::int64_t dim) {
    for (std::int64_t i = 0; i < steps(dim); i += N) {
      // Held, so that the keys are asked for in their order; the compiler mixed four of them.
      const V pairs = held(hn::LoadU(d, reinterpret_cast<const float*>(key) + i));
      for (int r = 0; r < kRows; ++r)
        part[r] = dot(pairs, hn::Load(d, q + r * steps(dim) + i), part[r]);
    }
  }
};

HWY_NOINLINE inline void decode_pairs(Call& call, int worker) {
  call.plan.arithmetic == plan::Arithmetic::kPairs ? decode_as<Paired>(call, worker)
                                                   : decode(call, worker);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
