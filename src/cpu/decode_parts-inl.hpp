// Elements of K and V as vectors of float32, for decoding; compiled once per target.
#if defined(TESSERA_CPU_DECODE_PARTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_DECODE_PARTS_INL_HPP
#undef TESSERA_CPU_DECODE_PARTS_INL_HPP
#else
#define TESSERA_CPU_DECODE_PARTS_INL_HPP
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/isa/held-inl.hpp"
#include "cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// One vector of elements as float32.
HWY_INLINE V load_vector(const float* from) { return hn::LoadU(d, from); }
HWY_INLINE V load_vector(const core::Bfloat16* from) {
  const hn::Rebind<std::uint16_t, D> half;
  const hn::RebindToUnsigned<D> bits;
  const auto upper = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, upper)));
}
HWY_INLINE V load_vector(const core::Float16* from) {
  HWY_ALIGN float lanes[N];
  if constexpr (kHasFloat16) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  for (int i = 0; i < N; ++i) lanes[i] = as_float(from[i]);
  return hn::Load(d, lanes);
}

// Some vectors of a row, in flight from here on.
template <class T, int kVectors> struct Part {
  V x[kVectors];

  HWY_INLINE explicit Part(const T* from) {
    for (int c = 0; c < kVectors; ++c) x[c] = held(load_vector(from + c * N));
  }
  HWY_INLINE V operator[](int c) const { return x[c]; }
};

// Two vectors of bfloat16 are one load, and lie by parity: the even elements, then the odd ones.
// That takes one instruction a vector; in the order of memory it takes two, one of them a shuffle.
template <class T> constexpr bool kByParity = std::is_base_of_v<core::Bfloat16, T>;

template <class T, int kVectors>
  requires(kByParity<T> && kVectors % 2 == 0)
struct Part<T, kVectors> {
  using Words = hn::RebindToUnsigned<D>;
  hn::Vec<Words> x[kVectors / 2];

  HWY_INLINE explicit Part(const T* from) {
    for (int c = 0; c < kVectors / 2; ++c)
      x[c] = held(hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(from + 2 * c * N)));
  }
  HWY_INLINE V operator[](int c) const {
    const auto word = x[c / 2];
    return hn::BitCast(
        d, c % 2 == 0 ? hn::ShiftLeft<16>(word) : hn::And(word, hn::Set(Words(), 0xffff0000u)));
  }
};

// n floats in that order, and back; a last single vector stays as it is.
HWY_INLINE void split_by_parity(float* x, std::int64_t n) {
  for (; n >= 2 * N; n -= 2 * N, x += 2 * N) {
    float row[2 * N];
    std::copy_n(x, 2 * N, row);
    for (int i = 0; i < N; ++i) x[i] = row[2 * i], x[N + i] = row[2 * i + 1];
  }
}
HWY_INLINE void join_by_parity(float* x, std::int64_t n) {
  for (; n >= 2 * N; n -= 2 * N, x += 2 * N) {
    float row[2 * N];
    std::copy_n(x, 2 * N, row);
    for (int i = 0; i < N; ++i) x[2 * i] = row[i], x[2 * i + 1] = row[N + i];
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
