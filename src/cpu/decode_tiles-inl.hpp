// The two register kernels of decoding, compiled once per target. Rows of K and V come as pointers.
#if defined(TESSERA_CPU_DECODE_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_DECODE_TILES_INL_HPP
#undef TESSERA_CPU_DECODE_TILES_INL_HPP
#else
#define TESSERA_CPU_DECODE_TILES_INL_HPP
#endif

#include <cstdint>
#include <type_traits>

#include "cpu/decode_parts-inl.hpp"
#include "cpu/packing-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using plan::kDecodeBlock;
using plan::kRunKeys;

// Rows of a tile of S, and vectors of columns that are brought into O together.
constexpr int kScoreRows = 4, kVectorsAtOnce = N == 16 ? 8 : 4;
constexpr int kKeysAtOnce = 4;  // whose sums are brought together
constexpr std::int64_t kCacheLine = 64;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
constexpr std::int64_t whole_vectors(std::int64_t n) { return round_up(n, N); }

// The rows of K or V of kRunKeys keys, at equal distances. So many rows of V stay near while all
// rows of O use them.
template <class T> struct Run {
  const T* row;
  std::int64_t stride;

  HWY_INLINE Run from(std::int64_t key) const { return {row + key * stride, stride}; }

  // Asks for some rows, of so many bytes. Into the L2 cache, which has more miss buffers.
  HWY_INLINE void prefetch(core::Range keys, std::int64_t bytes) const {
    for (std::int64_t j = keys.begin; j < keys.end; ++j)
      for (std::int64_t i = 0; i < bytes; i += kCacheLine)
        __builtin_prefetch(reinterpret_cast<const std::byte*>(row + j * stride) + i, 0, 2);
  }
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void store_sums(const V (&sum)[kKeysAtOnce], float* to) {
  for (int j = 0; j < kKeysAtOnce; ++j) to[j] = hn::GetLane(sum[j]);
}
#else
// The four sums over lanes, next to each other; the same tree for every row. A template, so that
// what only wider vectors have is not asked of the others.
template <class W> HWY_INLINE void store_sums(const W (&sum)[kKeysAtOnce], float* to) {
  const hn::DFromV<W> wide;
  const hn::Repartition<double, decltype(wide)> pairs;
  const auto add_halves = [wide](W a, W b) {  // in each block a0 + a2, b0 + b2, a1 + a3, b1 + b3
    return hn::Add(hn::InterleaveLower(wide, a, b), hn::InterleaveUpper(wide, a, b));
  };
  const auto ab = hn::BitCast(pairs, add_halves(sum[0], sum[1]));
  const auto ce = hn::BitCast(pairs, add_halves(sum[2], sum[3]));
  W x = hn::Add(hn::BitCast(wide, hn::InterleaveLower(pairs, ab, ce)),
                hn::BitCast(wide, hn::InterleaveUpper(pairs, ab, ce)));
  const hn::Half<decltype(wide)> half;
  if constexpr (N == 4) {
    hn::StoreU(x, wide, to);
  } else if constexpr (N == 8) {
    hn::StoreU(hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), half, to);
  } else {
    const auto y = hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x));
    const hn::Half<decltype(half)> quarter;
    hn::StoreU(hn::Add(hn::LowerHalf(quarter, y), hn::UpperHalf(quarter, y)), quarter, to);
  }
}
#endif

// Scores in units of log2.
struct Log2Scores {
  HWY_INLINE explicit Log2Scores(const Problem&) {}
  HWY_INLINE V in_log2(V s) const { return s; }
  HWY_INLINE V above(V base, V s) const { return hn::Sub(s, base); }
};

// How elements of type T become scores: both factors are widened to float32.
template <class T> struct Products {
  using Scores = Log2Scores;

  // What a row of q fills, in floats.
  static constexpr std::int64_t steps(std::int64_t dim) { return dim; }

  static HWY_INLINE void load_query(float* to, const Problem& p, void* at) {
    load(to, p.q, at, p.dim);
    for (std::int64_t i = 0; i < p.dim; ++i) to[i] *= log2_scale(p);
    std::fill(to + p.dim, to + whole_vectors(p.dim), 0.f);
    if (kByParity<T>) split_by_parity(to, whole_vectors(p.dim));
  }

  // part += the products of a key and of each row of q [kRows][dim], lane by lane.
  template <int kRows>
  static HWY_INLINE void add(V (&part)[kRows], const T* key, const float* HWY_RESTRICT q,
                             std::int64_t dim) {
    std::int64_t i = 0;
    if constexpr (kByParity<T>)
      for (; i + 2 * N <= dim; i += 2 * N) {
        const Part<T, 2> element(key + i);
        for (int c = 0; c < 2; ++c)
          for (int r = 0; r < kRows; ++r)
            part[r] = hn::MulAdd(element[c], hn::Load(d, q + r * dim + i + c * N), part[r]);
      }
    for (; i < dim; i += N) {
      const V element = load_vector(key + i);
      for (int r = 0; r < kRows; ++r)
        part[r] = hn::MulAdd(element, hn::Load(d, q + r * dim + i), part[r]);
    }
  }
};

// S = Q K^T for kRows rows and the first four keys of `k`: q [kRows][steps], s
// [kRows][kDecodeBlock]. dim is kSteps vectors if that is not 0. One key after the other, in the
// order of memory: with four side by side the processor foresees nothing (Zen 4: 31 -> 13 GB/s on
// one core).
template <int kRows, int kSteps, class T>
HWY_INLINE void score_keys(const Run<T>& k, const float* HWY_RESTRICT q, std::int64_t any_dim,
                           float* HWY_RESTRICT s) {
  const std::int64_t dim = kSteps > 0 ? kSteps * N : any_dim;
  V sum[kRows][kKeysAtOnce];
  for (int j = 0; j < kKeysAtOnce; ++j) {
    const T* const key = k.row + j * k.stride;
    V part[kRows];
    for (V& x : part) x = hn::Zero(d);
    Products<T>::add(part, key, q, dim);
    for (int r = 0; r < kRows; ++r) sum[r][j] = part[r];
  }
  for (int r = 0; r < kRows; ++r) store_sums(sum[r], s + r * kDecodeBlock);
}

// Rows of a tile of O, which has all the columns of two rows, so that V is read as it lies. Of
// float16 it has half of the columns of four rows, so that a vector is converted once and not
// twice; the lines of the other half are touched on the way, and V is still asked for as it lies
// (Zen 4, one core: 18.6 -> 19.6 GB/s; the other types, which have no conversions to save, lose).
template <class T> constexpr bool kHalfTiles = N == 16 && std::is_same_v<T, core::Float16>;
template <class T> constexpr int kOutputRows = kHalfTiles<T> ? 4 : 2;

// Reads a byte of each line, and so asks for the lines in this order whatever comes after.
template <class T> HWY_INLINE void touch(const T* from, std::int64_t elements) {
  const auto* const bytes = reinterpret_cast<const volatile unsigned char*>(from);
  for (std::int64_t i = 0; i < elements * std::int64_t(sizeof(T)); i += kCacheLine) (void)bytes[i];
}

// Where the outputs of some rows lie.
struct OutputRows {
  float* o;
  std::int64_t stride;
  const float* alpha;
};

// O = alpha O + P V for kRows rows, `keys` keys and kVectors vectors of columns: p
// [kRows][kDecodeBlock], v from the first of them and the first column on; kTouched vectors behind
// them are touched. Addresses that are more than one addition from key to key cost 10 % of the
// memory's speed: what is in flight is what the window of the processor holds.
template <int kRows, int kVectors, int kTouched, class T>
HWY_INLINE void accumulate_part(const OutputRows& to, const float* HWY_RESTRICT p, Run<T> v,
                                std::int64_t keys) {
  V sum[kRows][kVectors];
  for (auto& row : sum)
    for (V& x : row) x = hn::Zero(d);
  for (std::int64_t j = 0; j < keys; ++j, v.row += v.stride) {
    const Part<T, kVectors> values(v.row);
    touch(v.row + kVectors * N, kTouched * N);
    for (int r = 0; r < kRows; ++r) {
      const V weight = hn::Set(d, p[r * kDecodeBlock + j]);
      for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::MulAdd(weight, values[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kVectors; ++c) {
      float* const o = to.o + r * to.stride + c * N;
      hn::Store(hn::MulAdd(hn::Set(d, to.alpha[r]), hn::Load(d, o), sum[r][c]), d, o);
    }
}

// The same in two halves where a tile does not have all of the columns.
template <int kRows, int kVectors, class T>
HWY_INLINE void accumulate_values(const OutputRows& to, const float* HWY_RESTRICT p, Run<T> v,
                                  std::int64_t keys) {
  if constexpr (kHalfTiles<T> && kVectors == kVectorsAtOnce) {
    constexpr int kHalf = kVectors / 2;
    accumulate_part<kRows, kHalf, kHalf>(to, p, v, keys);
    const OutputRows rest{to.o + kHalf * N, to.stride, to.alpha};
    accumulate_part<kRows, kHalf, 0>(rest, p, Run<T>{v.row + kHalf * N, v.stride}, keys);
  } else {
    accumulate_part<kRows, kVectors, 0>(to, p, v, keys);
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
