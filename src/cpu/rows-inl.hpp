// Rows of any type and stride to float32 and back, compiled once per target. Rounding is to nearest
// even everywhere.
#if defined(TESSERA_CPU_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ROWS_INL_HPP
#undef TESSERA_CPU_ROWS_INL_HPP
#else
#define TESSERA_CPU_ROWS_INL_HPP
#endif

#include <cstdint>

#include "core/tensor.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using core::DType;
using core::Tensor;

// F16C comes with the AVX2 target; elsewhere Highway's own float16 knows no infinity and no NaN.
constexpr bool kHasFloat16 = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;

constexpr float as_float(float x) { return x; }
constexpr float as_float(core::Float16 x) { return core::float_from_float16(x.bits); }
constexpr float as_float(core::Bfloat16 x) { return core::float_from_bfloat16(x.bits); }
constexpr void put(float& to, float x) { to = x; }
constexpr void put(core::Float16& to, float x) { to.bits = core::float16_from_float(x); }
constexpr void put(core::Bfloat16& to, float x) { to.bits = core::bfloat16_from_float(x); }

// Whole vectors of n float16; returns how many elements that was.
HWY_INLINE std::int64_t load_vectors(float* to, const core::Float16* from, std::int64_t n) {
  std::int64_t i = 0;
  if constexpr (kHasFloat16) {
    const hn::Rebind<hwy::float16_t, D> half;
    for (; i + N <= n; i += N)
      hn::StoreU(
          hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), d,
          to + i);
  }
  return i;
}
HWY_INLINE std::int64_t store_vectors(core::Float16* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  if constexpr (kHasFloat16) {
    const hn::Rebind<hwy::float16_t, D> half;
    for (; i + N <= n; i += N)
      hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half,
                 reinterpret_cast<hwy::float16_t*>(to + i));
  }
  return i;
}
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
// As core::bfloat16_from_float, which the compiler vectorises at half the speed.
HWY_INLINE std::int64_t store_vectors(core::Bfloat16* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  for (; i + N <= n; i += N) {
    const auto x = hn::LoadU(d, from + i);
    const auto bits = hn::BitCast(words, x), upper = hn::ShiftRight<16>(bits);
    const auto even = hn::Add(hn::And(upper, hn::Set(words, 1u)), hn::Set(words, 0x7fffu));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, even));
    const auto quiet = hn::Or(upper, hn::Set(words, 0x40u));
    const auto chosen = hn::IfThenElse(hn::RebindMask(words, hn::Eq(x, x)), rounded, quiet);
    hn::StoreU(hn::TruncateTo(halves, chosen), halves, &to[i].bits);
  }
  return i;
}
#endif
// The compiler vectorises the others.
template <class T> HWY_INLINE std::int64_t load_vectors(float*, const T*, std::int64_t) {
  return 0;
}
template <class T> HWY_INLINE std::int64_t store_vectors(T*, const float*, std::int64_t) {
  return 0;
}

template <class T>
HWY_INLINE void load_row(float* HWY_RESTRICT to, const T* HWY_RESTRICT from, std::int64_t stride,
                         std::int64_t n) {
  if (stride == 1)
    for (std::int64_t i = load_vectors(to, from, n); i < n; ++i) to[i] = as_float(from[i]);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = as_float(from[i * stride]);
}

template <class T>
HWY_INLINE void store_row(T* HWY_RESTRICT to, std::int64_t stride, const float* HWY_RESTRICT from,
                          std::int64_t n) {
  if (stride == 1)
    for (std::int64_t i = store_vectors(to, from, n); i < n; ++i) put(to[i], from[i]);
  else
    for (std::int64_t i = 0; i < n; ++i) put(to[i * stride], from[i]);
}

// Calls f with a pointer of the element type: the one place where a dtype becomes a type.
template <class F> HWY_INLINE void with_type(DType dtype, void* data, F&& f) {
  if (dtype == DType::kFloat32) return f(static_cast<float*>(data));
  if (dtype == DType::kFloat16) return f(static_cast<core::Float16*>(data));
  f(static_cast<core::Bfloat16*>(data));
}

// n elements along the last dimension of the tensor, from `at` on.
HWY_INLINE void load(float* to, const Tensor& t, void* at, std::int64_t n) {
  with_type(t.dtype, at, [&](const auto* from) { load_row(to, from, t.stride[3], n); });
}
HWY_INLINE void store(const Tensor& t, void* at, const float* from, std::int64_t n) {
  with_type(t.dtype, at, [&](auto* to) { store_row(to, t.stride[3], from, n); });
}

constexpr int kTogether = int(kTiles.together);
static_assert(kTogether == 4 || N == 1);

// to[i * kTo + r] = rows[r * stride + i] for kTogether rows of n elements.
template <int kTo = kStrip>
HWY_INLINE void transpose_rows(float* HWY_RESTRICT to, const float* HWY_RESTRICT rows,
                               std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<double, 2> d2;  // pairs of float32
  for (const std::int64_t whole = n / 4 * 4; i < whole; i += 4) {
    const auto a = hn::LoadU(d4, rows + i), b = hn::LoadU(d4, rows + stride + i);
    const auto c = hn::LoadU(d4, rows + 2 * stride + i), e = hn::LoadU(d4, rows + 3 * stride + i);
    const auto ab_low = hn::BitCast(d2, hn::InterleaveLower(d4, a, b));
    const auto ab_high = hn::BitCast(d2, hn::InterleaveUpper(d4, a, b));
    const auto ce_low = hn::BitCast(d2, hn::InterleaveLower(d4, c, e));
    const auto ce_high = hn::BitCast(d2, hn::InterleaveUpper(d4, c, e));
    const auto put_column = [&](int k, auto pairs) {
      hn::StoreU(hn::BitCast(d4, pairs), d4, to + (i + k) * kTo);
    };
    put_column(0, hn::InterleaveLower(d2, ab_low, ce_low));
    put_column(1, hn::InterleaveUpper(d2, ab_low, ce_low));
    put_column(2, hn::InterleaveLower(d2, ab_high, ce_high));
    put_column(3, hn::InterleaveUpper(d2, ab_high, ce_high));
  }
#endif
  for (; i < n; ++i)
    for (int r = 0; r < kTogether; ++r) to[i * kTo + r] = rows[r * stride + i];
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
