// The row of bfloat16_words.hpp, for the target that has it.
#if defined(TESSERA_TESTS_BFLOAT16_WORDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TESTS_BFLOAT16_WORDS_INL_HPP
#undef TESSERA_TESTS_BFLOAT16_WORDS_INL_HPP
#else
#define TESSERA_TESTS_BFLOAT16_WORDS_INL_HPP
#endif

#include <algorithm>
#include <cstring>

#include "cpu/backward_amx-inl.hpp"
#include "unit/cpu/bfloat16_words.hpp"
#include "unit/cpu/emulated_tiles.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::test::bfloat16::HWY_NAMESPACE {
namespace in = cpu::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;
using in::d;
using in::N;
using in::V;

constexpr int kRows = in::row_tile_begin(1);

inline void exp2(float* x, std::int64_t n) {
  const in::TableExp2 exp2;
  for (std::int64_t i = 0; i < n; i += N) {
    HWY_ALIGN float lanes[N] = {};
    std::copy_n(x + i, std::min<std::int64_t>(N, n - i), lanes);
    hn::Store(exp2(hn::Load(d, lanes)), d, lanes);
    std::copy_n(lanes, std::min<std::int64_t>(N, n - i), x + i);
  }
}

template <int kHalves>
void multiply_halves(float* s, const std::uint16_t* k, const float* q, std::int64_t steps) {
  const in::Pair* rows[in::kKeyTile];
  for (int j = 0; j < in::kKeyTile; ++j)
    rows[j] = reinterpret_cast<const in::Pair*>(k + j * 2 * steps);
  V tile[in::kKeyTile][2];
  in::multiply_chains<kHalves>(tile, rows, q, steps, 64);
  for (int j = 0; j < in::kKeyTile; ++j)
    for (int half = 0; half < kHalves; ++half)
      hn::StoreU(tile[j][half], d, s + j * in::kStrip + half * N);
}

inline void multiply(int halves, float* s, const std::uint16_t* k, const std::uint32_t* q,
                     std::int64_t steps) {
  Line<std::uint32_t> queries(q, steps * in::kStrip);
  halves == 1 ? multiply_halves<1>(s, k, queries.floats(), steps)
              : multiply_halves<2>(s, k, queries.floats(), steps);
}

inline void accumulate(float* o, const float* alpha, const std::uint32_t* p, const std::uint32_t* v,
                       const Bfloat16Words::Steps& steps) {
  Line<float> sums(o, kRows * in::kPanel);
  Line<std::uint32_t> weights(p, (steps.steps + steps.skipped) * in::kStrip);
  Line<std::uint32_t> values(v, steps.steps * in::kPanel);
  in::accumulate<kRows>(sums.floats(), alpha, weights.floats(),
                        in::ValuePairs{reinterpret_cast<const in::Pair*>(values.floats()),
                                       steps.steps, steps.skipped});
  std::copy_n(sums.floats(), kRows * in::kPanel, o);
}

inline void weigh(float* s, core::Range rows, float unit, const float* base, float* sum) {
  Line<float> scores(s, (rows.end + 1) * in::kStrip);
  const V bases[2] = {hn::LoadU(d, base), hn::LoadU(d, base + N)};
  V sums[2] = {hn::Zero(d), hn::Zero(d)};
  in::Pairs::weigh<2>(scores.floats(), rows, unit, bases, sums);
  std::copy_n(scores.floats(), (rows.end + 1) * in::kStrip, s);
  for (int half = 0; half < 2; ++half) hn::StoreU(sums[half], d, sum + half * N);
}

template <class Tiles> void multiply_by(float* c, const std::uint16_t* a, const std::uint16_t* b) {
  [[maybe_unused]] const typename Tiles::Session session;
  Tiles::template load<3>(c, 64);
  Tiles::template load<4>(a, 64);
  Tiles::template load<7>(b, 64);
  Tiles::template multiply<3, 4, 7>();
  Tiles::template store<3>(c, 64);
}

inline void forward_emulated(cpu::Call& call) { in::forward<in::Tiles<EmulatedTiles>>(call, 0); }

inline void backward_emulated(cpu::Call& call) {
  in::backward<in::BackwardTiles<EmulatedTiles>>(call, 0);
}

inline Bfloat16Words words() {
  return {.strip = in::kStrip,
          .panel = in::kPanel,
          .key_tile = in::kKeyTile,
          .rows = kRows,
          .exp2 = exp2,
          .multiply = multiply,
          .accumulate = accumulate,
          .weigh = weigh,
          .multiply_tiles = multiply_by<cpu::amx::Registers>,
          .multiply_emulated = multiply_by<EmulatedTiles>,
          .forward_emulated = forward_emulated,
          .backward_emulated = backward_emulated};
}

}  // namespace tessera::test::bfloat16::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
