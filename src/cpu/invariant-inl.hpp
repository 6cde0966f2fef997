// O = alpha O + P V over runs of keys, with the bits that one run gives: keys that a row does not
// see leave no trace in its sum, so the runs, which the rows of a strip make together, do not show.
#if defined(TESSERA_CPU_INVARIANT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_INVARIANT_INL_HPP
#undef TESSERA_CPU_INVARIANT_INL_HPP
#else
#define TESSERA_CPU_INVARIANT_INL_HPP
#endif

#include <cstdint>

#include "cpu/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Row r and the panel from column c on: alpha o + the sum over all runs, as accumulate() sums over
// one.
template <class Strip>
HWY_INLINE void accumulate_row(const Strip& t, std::int64_t r, std::int64_t c, const KeyBlock& kv,
                               const Runs& runs) {
  V sum[2] = {hn::Zero(d), hn::Zero(d)};
  for (int i = 0; i < runs.size; ++i)
    for (std::int64_t j = runs.run[i].begin; j < runs.run[i].end; ++j) {
      const V weight = hn::Set(d, t.s[(j - kv.keys.begin) * kStrip + r]);
      const float* const value = kv.value(j, c / kPanel);
      for (int half = 0; half < 2; ++half)
        sum[half] = hn::MulAdd(weight, hn::LoadU(d, value + half * N), sum[half]);
    }
  float* const o = &t.output(r, c);
  const V alpha = hn::Set(d, t.alpha[r]);
  for (int half = 0; half < 2; ++half)
    hn::Store(hn::MulAdd(alpha, hn::Load(d, o + half * N), sum[half]), d, o + half * N);
}

// All rows and panels of a strip.
template <class Strip>
HWY_NOINLINE inline void accumulate_through(const Strip& t, const Problem& p, const KeyBlock& kv,
                                            const Runs& runs) {
  for (std::int64_t c = 0; c < p.value_dim; c += kPanel)
    for (std::int64_t r = 0; r < t.rows.size(); ++r) accumulate_row(t, r, c, kv, runs);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
