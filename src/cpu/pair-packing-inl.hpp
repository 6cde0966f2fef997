// Keys and values as pairs of bfloat16, with zeros where a row ends in half a pair.
#if defined(TESSERA_CPU_PAIR_PACKING_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_PAIR_PACKING_INL_HPP
#undef TESSERA_CPU_PAIR_PACKING_INL_HPP
#else
#define TESSERA_CPU_PAIR_PACKING_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/scores-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Two neighbours of a row.
struct Pair {
  core::Bfloat16 low, high;
};
static_assert(sizeof(Pair) == 4 && alignof(Pair) == 2);

// (a0 .. a15, b0 .. b15) -> (a0, b0, a1, b1, ...) with b a distance of elements behind a.
HWY_INLINE __m512i order_of_pairs(int distance) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i other = _mm512_add_epi32(lane, _mm512_set1_epi32(distance));
  return _mm512_or_si512(lane, _mm512_slli_epi32(other, 16));
}

constexpr std::int64_t kRegister = 2 * N;  // bfloat16
HWY_INLINE __mmask32 first_of(std::int64_t n) {
  return n <= 0 ? 0 : n >= kRegister ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
}

// Up to a register of bfloat16 along the last dimension, then zeros. No other memory is touched.
HWY_INLINE __m512i load_part(const core::Tensor& t, const core::Bfloat16* from, std::int64_t n) {
  if (t.stride[3] == 1 && n >= kRegister) return _mm512_loadu_si512(from);
  if (t.stride[3] == 1) return _mm512_maskz_loadu_epi16(first_of(n), from);
  HWY_ALIGN core::Bfloat16 row[kRegister] = {};
  for (std::int64_t i = 0; i < std::min(n, kRegister); ++i) row[i] = from[i * t.stride[3]];
  return _mm512_load_si512(row);
}

// n bfloat16, and zeros up to `room`.
HWY_INLINE void copy_row(Pair* to, const core::Tensor& t, const void* at, std::int64_t n,
                         std::int64_t room) {
  const auto* from = static_cast<const core::Bfloat16*>(at);
  auto* const row = reinterpret_cast<core::Bfloat16*>(to);
  for (std::int64_t i = 0; i < room; i += kRegister) {
    const __m512i x = load_part(t, from + i * t.stride[3], n - i);
    if (room - i >= kRegister)
      _mm512_storeu_si512(row + i, x);
    else  // slower
      _mm512_mask_storeu_epi16(row + i, first_of(room - i), x);
  }
}

// The values of a block, two keys at a time. What is not finite becomes 0: it may be the neighbour
// of a value that a row sees.
class InterleavedValues {
 public:
  HWY_INLINE InterleavedValues(const Problem& p, const Sequence& s, std::int64_t kv_head,
                               std::int64_t first)
      : v_(p.v), columns_(p.value_dim) {
    const std::int64_t keys = std::min(end_of_keys(p, s) - first, kBlock);
    for (std::int64_t j = 0; j < kBlock; ++j) {
      rows_[j] = nullptr;
      if (j >= keys) continue;
      const auto [batch, row] = p.place(s, s.index, first + j);
      rows_[j] = reinterpret_cast<const core::Bfloat16*>(p.v.at(batch, row, kv_head));
    }
  }

  std::int64_t columns() const { return columns_; }
  bool finite() const { return wild_ == 0; }

  // to[c] = the values of keys j and j + 1 of the block, for kPanel columns.
  HWY_INLINE void load(std::int64_t j, std::int64_t column, float* to) {
    const __m512i low = order_of_pairs(32), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __m512i a = row(j, column), b = row(j + 1, column);
    _mm512_store_si512(to, _mm512_permutex2var_epi16(a, low, b));
    _mm512_store_si512(to + N, _mm512_permutex2var_epi16(a, high, b));
  }

 private:
  HWY_INLINE __m512i row(std::int64_t j, std::int64_t column) {
    if (rows_[j] == nullptr) return _mm512_setzero_si512();
    const __m512i x = load_part(v_, rows_[j] + column * v_.stride[3], columns_ - column);
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    const __mmask32 bad = _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    wild_ |= bad;
    return _mm512_mask_mov_epi16(x, bad, _mm512_setzero_si512());
  }

  core::Tensor v_;
  const core::Bfloat16* rows_[kBlock];  // nullptr: there is no such key
  std::int64_t columns_;
  __mmask32 wild_ = 0;
};

// NaN in l of each row that sees one of `keys` whose value is not finite: the careful path does the
// rest. s [keys][kStrip] is -inf where a key is hidden.
HWY_NOINLINE inline void mark_rows_that_see(const float* s, const Problem& p, const Head& head,
                                            Range keys, float* l) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j, s += kStrip) {
    bool finite = true;
    const auto [batch, row] = p.place(head.sequence, head.b, j);
    for (std::int64_t c = 0; c < p.value_dim; ++c)
      finite &= std::isfinite(p.v.load(batch, row, head.kv_head, c));
    for (int r = 0; r < kStrip && !finite; ++r)
      if (s[r] != -kInfinity) l[r] = std::numeric_limits<float>::quiet_NaN();
  }
}

// As Packer, in pairs. How V is laid out in a slot is left to the user.
class PairSlots {
 protected:
  PairSlots(const Problem& p, const plan::Plan& plan, float* memory)
      : k_row_(plan::steps_of(plan.arithmetic, p.dim)),
        slots_(plan.packing == plan::Packing::kHead ? divide_up(plan.longest_keys, kBlock) : 1),
        slot_pairs_(kBlock * (k_row_ + padded(p.value_dim) / 2)),
        memory_(reinterpret_cast<Pair*>(memory)),
        owner_(reinterpret_cast<std::int64_t*>(memory_ + slots_ * slot_pairs_)) {
    std::fill_n(owner_, slots_, std::int64_t{-1});
  }

  std::int64_t k_row() const { return k_row_; }

  struct Slot {
    const Pair *k, *v;
    std::int64_t first;
    bool finite;  // all values are
  };

  // The block of keys around `keys`. pack(InterleavedValues&, Pair* to) lays out its values.
  template <class Pack>
  HWY_INLINE Slot find(const Problem& p, const Sequence& s, std::int64_t kv_head, Range keys,
                       Pack&& pack) {
    const std::int64_t block = keys.begin / kBlock, slot = block % slots_, first = block * kBlock;
    Pair* const k = memory_ + slot * slot_pairs_;
    Pair* const v = k + kBlock * k_row_;
    const std::int64_t head = owner_of_keys(p, s) * p.kv_heads + kv_head;
    const std::int64_t owner = head * divide_up(p.keys, kBlock) + block;
    if (owner_[slot] >> 1 != owner) {
      pack_keys(p, s, kv_head, first, k);
      InterleavedValues values(p, s, kv_head, first);
      pack(values, v);
      owner_[slot] = 2 * owner + (values.finite() ? 1 : 0);
      if (!p.paged()) prefetch_block(p, s, kv_head, first + kBlock);
    }
    return {k, v, first, (owner_[slot] & 1) != 0};
  }

 private:
  HWY_NOINLINE void pack_keys(const Problem& p, const Sequence& s, std::int64_t kv_head,
                              std::int64_t first, Pair* to) const {
    const core::Tensor k = p.k;  // a copy, which no store can change
    const std::int64_t keys = std::min(first + kBlock, end_of_keys(p, s));
    const std::int64_t dim = p.dim, k_row = k_row_;
    for (std::int64_t j = first; j < keys; ++j, to += k_row) {
      const auto [batch, row] = p.place(s, s.index, j);
      copy_row(to, k, k.at(batch, row, kv_head), dim, 2 * k_row);
    }
  }

  static void prefetch_block(const Problem& p, const Sequence& s, std::int64_t kv_head,
                             std::int64_t first) {
    const std::int64_t rows = std::min(kBlock, end_of_keys(p, s) - first);
    prefetch_rows(p.k, {s.k_batch, s.k_begin + first, kv_head, 0}, rows);
    prefetch_rows(p.v, {s.k_batch, s.k_begin + first, kv_head, 0}, rows);
  }

  std::int64_t k_row_, slots_, slot_pairs_;
  Pair* memory_;
  std::int64_t* owner_;  // 2 owner + finite of each slot; -1: empty
};

// Two keys of one panel of V a step.
struct ValuePairs {
  const Pair* v;
  std::int64_t steps, skipped;

  HWY_INLINE void load(std::int64_t step, V (&to)[2]) const {
    const auto* const row = reinterpret_cast<const float*>(v + step * kPanel);
    to[0] = hn::Load(d, row), to[1] = hn::Load(d, row + N);
  }
};

// As KeyBlock: K [kBlock][pairs of dimensions], V [panels][kBlock / 2][kPanel] pairs of keys.
struct PairBlock {
  using Element = Pair;
  const Pair *k, *v;
  std::int64_t first, k_row;
  bool finite;  // all values are
  Range keys;

  // Rows of S and of P that come before keys.begin, since a pair has one place.
  std::int64_t lead() const { return (keys.begin - first) % 2; }
  const Pair* key(std::int64_t j) const { return k + (j - first) * k_row; }
  ValuePairs values(Range some, std::int64_t panel) const {
    const std::int64_t begin = (some.begin - first) / 2, end = divide_up(some.end - first, 2);
    return {v + (panel * (kBlock / 2) + begin) * kPanel, end - begin,
            begin - (keys.begin - first) / 2};
  }
  HWY_INLINE void mark_rows(const float* s, const Problem& p, const Head& head, float* l) const {
    if (!finite) mark_rows_that_see(s + lead() * kStrip, p, head, keys, l);
  }
};

class PairPacker : PairSlots {
 public:
  PairPacker(const Problem& p, const plan::Plan& plan, float* memory)
      : PairSlots(p, plan, memory) {}

  PairBlock operator()(const Problem& p, const Sequence& s, std::int64_t kv_head, Range keys) {
    const Slot slot = find(p, s, kv_head, keys, pack_values);
    return {slot.k, slot.v, slot.first, k_row(), slot.finite, keys};
  }

 private:
  static HWY_NOINLINE void pack_values(InterleavedValues& values, Pair* to) {
    for (std::int64_t c = 0; c < values.columns(); c += kPanel)
      for (std::int64_t j = 0; j < kBlock; j += 2, to += kPanel)
        values.load(j, c, reinterpret_cast<float*>(to));
  }
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
