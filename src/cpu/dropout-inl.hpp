// Which pairs of a block dropout keeps: Philox4x32-10 in lanes of queries, compiled once per
// target. The four words of a counter serve four keys (core/philox.hpp, core/problem.hpp).
#if defined(TESSERA_CPU_DROPOUT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_DROPOUT_INL_HPP
#undef TESSERA_CPU_DROPOUT_INL_HPP
#else
#define TESSERA_CPU_DROPOUT_INL_HPP
#endif

#include <cstdint>

#include "core/philox.hpp"
#include "cpu/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using DU = hn::RebindToUnsigned<D>;
using VU = hn::Vec<DU>;
constexpr DU du;

// The words of counter c for the first of N queries, one vector for each of its four keys; the
// other queries count on from c[1].
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void draw_words(VU (&words)[4], core::PhiloxCounter c, core::PhiloxKey k) {
  const core::PhiloxCounter all = core::philox(c, k);
  for (std::size_t n = 0; n < 4; ++n) words[n] = hn::Set(du, all[n]);
}
#else
// Words in the lower halves of 64 bits; the upper halves hold anything.
using DW = hn::Repartition<std::uint64_t, DU>;
using VW = hn::Vec<DW>;
constexpr DW dw;

// philox_round of core/philox.hpp.
HWY_INLINE void philox_round(VW (&c)[4], VW k0, VW k1) {
  const VW a = hn::MulEven(hn::BitCast(du, c[0]), hn::Set(du, 0xD2511F53u));
  const VW b = hn::MulEven(hn::BitCast(du, c[2]), hn::Set(du, 0xCD9E8D57u));
  c[0] = hn::Xor(hn::ShiftRight<32>(b), hn::Xor(c[1], k0));
  c[1] = b;
  c[2] = hn::Xor(hn::ShiftRight<32>(a), hn::Xor(c[3], k1));
  c[3] = a;
}

// Even and odd queries apart.
HWY_INLINE void draw_words(VU (&words)[4], core::PhiloxCounter c, core::PhiloxKey k) {
  VW even[4], odd[4];
  for (std::size_t n = 0; n < 4; ++n) even[n] = odd[n] = hn::Set(dw, c[n]);
  const VW lane = hn::Iota(dw, 0);
  even[1] = hn::Add(even[1], hn::Add(lane, lane));
  odd[1] = hn::Add(even[1], hn::Set(dw, 1));
  for (int round = 0; round < 10; ++round) {
    const VW k0 = hn::Set(dw, k[0]), k1 = hn::Set(dw, k[1]);
    philox_round(even, k0, k1);
    philox_round(odd, k0, k1);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  for (int n = 0; n < 4; ++n)
    words[n] = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd[n])), hn::BitCast(du, even[n]));
}
#endif

// The pairs of a block that are kept, in place of EveryPair.
class KeptPairs {
 public:
  template <int kHalves>
  HWY_NOINLINE void draw(const Problem& p, const Head& head, Range rows, Range keys) {
    const VU least = hn::Set(du, p.dropout.threshold());
    const core::PhiloxKey key = core::philox_key(p.dropout.seed);
    const auto row = std::uint32_t(head.b * p.heads + head.h);
    for (std::int64_t group = keys.begin / 4; group * 4 < keys.end; ++group)
      for (int half = 0; half < kHalves; ++half) {
        const auto query = std::uint32_t(rows.begin + half * N);
        VU words[4];
        draw_words(words, {std::uint32_t(group), query, row, p.dropout.offset}, key);
        for (int n = 0; n < 4; ++n) {
          const std::int64_t j = group * 4 + n - keys.begin;
          if (j < 0 || j >= keys.size()) continue;
          const auto kept = hn::Not(hn::Lt(words[n], least));
          hn::StoreMaskBits(du, kept, bits_[j * 2 + half]);
        }
      }
  }

  // 0 for the weights, [keys][kStrip], that are not kept.
  template <int kHalves> HWY_INLINE void drop(float* weights, std::int64_t keys) const {
    for (std::int64_t j = 0; j < keys; ++j, weights += kStrip)
      for (int half = 0; half < kHalves; ++half) {
        float* const to = weights + half * N;
        hn::Store(keep(hn::Load(d, to), half, j), d, to);
      }
  }

  HWY_INLINE V keep(V weight, int half, std::int64_t j) const {
    return hn::IfThenElseZero(kept(half, j), weight);
  }
  HWY_INLINE hn::Mask<D> keep(hn::Mask<D> lanes, int half, std::int64_t j) const {
    return hn::And(kept(half, j), lanes);
  }

 private:
  HWY_INLINE hn::Mask<D> kept(int half, std::int64_t j) const {
    return hn::LoadMaskBits(d, bits_[j * 2 + half]);
  }

  // 8 bytes, of which LoadMaskBits may read all.
  std::uint8_t bits_[2 * kBlock][8];
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
