// The words of the forward on pairs of bfloat16, for AVX512-BF16: two dimensions of a score, or two
// keys of a sum, share a lane of 32 bits. Products are exact and sums float32; q is not scaled
// before the product, which would round it again; P alone is rounded. The words are assembly, so
// that this file belongs to the same target as the loops that call it.
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

#include "cpu/standard-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Two neighbours of a row.
struct Pair {
  core::Bfloat16 low, high;
};
static_assert(sizeof(Pair) == 4 && alignof(Pair) == 2);

HWY_INLINE V broadcast(const Pair* x) {
  float both;
  std::memcpy(&both, x, sizeof both);
  return hn::Set(d, both);
}

// SDM, VDPBF16PS: c + a.low b.low + a.high b.high in each lane. Subnormal numbers count as 0.
HWY_INLINE V dot(V a, V b, V c) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(c.raw) : "v"(a.raw), "v"(b.raw));
  return c;
}
HWY_INLINE V multiply_add(const Pair*, V a, V b, V c) { return dot(a, b, c); }

// SDM, VCVTNE2PS2BF16: the lanes of low, then those of high, to nearest even.
HWY_INLINE __m512i round_both(V low, V high) {
  __m512i both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low.raw), "v"(high.raw));
  return both;
}

// (a0 .. a15, b0 .. b15) -> (a0, b0, a1, b1, ...) with b a distance of elements behind a.
HWY_INLINE __m512i order_of_pairs(int distance) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i other = _mm512_add_epi32(lane, _mm512_set1_epi32(distance));
  return _mm512_or_si512(lane, _mm512_slli_epi32(other, 16));
}

// ---- Scores: in units of 1, unlike those of the float32 tiles ----

template <int kHalves>
HWY_INLINE void multiply_keys(V (&s)[kKeyTile][2], const Pair* const (&k)[kKeyTile], const float* q,
                              const Problem& p) {
  multiply_chains<kHalves>(s, k, q, divide_up(p.dim, 2), longest_chain(p) / 2);
}

// ---- Weights ----

// 2^x as exp2 of the tiles, with the same promises (relative error 1e-7) and half the
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
    V p = hn::MulAdd(hn::Set(d, 0.240226497f), r, hn::Set(d, 0.69315733f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.f));
    // SDM, VSCALEFPS: times 2^floor(whole); 0 for whole = -inf, whatever p.
    return V{_mm512_scalef_ps(hn::Mul(p, table).raw, whole.raw)};
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

// ---- Keys and values ----

// Two keys of one panel of V a step.
struct ValuePairs {
  const Pair* v;
  std::int64_t steps, skipped;

  HWY_INLINE void load(std::int64_t step, V (&to)[2]) const {
    const auto* const row = reinterpret_cast<const float*>(v + step * kPanel);
    to[0] = hn::Load(d, row), to[1] = hn::Load(d, row + N);
  }
};

// NaN in l of each row that sees one of `keys` whose value is not finite: the careful path does the
// rest. s [keys][kStrip] is -inf where a key is hidden.
HWY_NOINLINE void mark_rows_that_see(const float* s, const Problem& p, const Head& head, Range keys,
                                     float* l) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j, s += kStrip) {
    bool finite = true;
    for (std::int64_t c = 0; c < p.value_dim; ++c)
      finite &= std::isfinite(
          p.v.load(head.sequence.k_batch, head.sequence.k_begin + j, head.kv_head, c));
    for (int r = 0; r < kStrip && !finite; ++r)
      if (s[r] != -kInfinity) l[r] = std::numeric_limits<float>::quiet_NaN();
  }
}

// As KeyBlock, in pairs. A value that is not finite is 0 here, since it may be the neighbour of one
// that a row sees.
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

constexpr std::int64_t kRegister = 2 * N;  // bfloat16
HWY_INLINE __mmask32 first_of(std::int64_t n) {
  return n >= kRegister ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
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

// As Packer: K [kBlock][pairs of dimensions], V [panels][kBlock / 2][kPanel] pairs of keys.
class PairPacker {
 public:
  // No sequence has more than `longest` keys.
  PairPacker(const Problem& p, plan::Packing packing, float* memory, std::int64_t longest)
      : k_row_(divide_up(p.dim, 2)),
        slots_(packing == plan::Packing::kHead ? divide_up(longest, kBlock) : 1),
        slot_pairs_(kBlock * (k_row_ + padded(p.value_dim) / 2)),
        memory_(reinterpret_cast<Pair*>(memory)),
        owner_(reinterpret_cast<std::int64_t*>(memory_ + slots_ * slot_pairs_)) {
    std::fill_n(owner_, slots_, std::int64_t{-1});
  }

  PairBlock operator()(const Problem& p, const Sequence& s, std::int64_t kv_head, Range keys) {
    const std::int64_t block = keys.begin / kBlock, slot = block % slots_;
    Pair* const memory = memory_ + slot * slot_pairs_;
    const std::int64_t head = owner_of_keys(p, s) * p.kv_heads + kv_head;
    const std::int64_t owner = head * divide_up(p.keys, kBlock) + block;
    if (owner_[slot] >> 1 != owner) {
      pack_keys(p, s, kv_head, block * kBlock, memory);
      const bool finite = pack_values(p, s, kv_head, block * kBlock, memory + kBlock * k_row_);
      owner_[slot] = 2 * owner + (finite ? 1 : 0);
      prefetch_block(p, s, kv_head, (block + 1) * kBlock);
    }
    return {memory, memory + kBlock * k_row_, block * kBlock,
            k_row_, (owner_[slot] & 1) != 0,  keys};
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
    if (p.paged()) return;
    const std::int64_t rows = std::min(first + kBlock, end_of_keys(p, s)) - first;
    prefetch_rows(p.k, {s.k_batch, s.k_begin + first, kv_head, 0}, rows);
    prefetch_rows(p.v, {s.k_batch, s.k_begin + first, kv_head, 0}, rows);
  }

  // Whether all values are finite.
  static HWY_NOINLINE bool pack_values(const Problem& p, const Sequence& s, std::int64_t kv_head,
                                       std::int64_t first, Pair* to) {
    const core::Tensor v = p.v;
    const std::int64_t keys = end_of_keys(p, s), columns = p.value_dim;
    const __m512i low = order_of_pairs(32), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    __mmask32 wild = 0;
    const auto row = [&](std::int64_t j, std::int64_t c) {
      if (j >= keys) return _mm512_setzero_si512();
      const auto [batch, place] = p.place(s, s.index, j);
      const void* const at = v.at(batch, place, kv_head, c);
      const __m512i x = load_part(v, static_cast<const core::Bfloat16*>(at), columns - c);
      const __mmask32 bad = _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
      wild |= bad;
      return _mm512_mask_mov_epi16(x, bad, _mm512_setzero_si512());
    };
    for (std::int64_t c = 0; c < columns; c += kPanel)
      for (std::int64_t j = first; j < first + kBlock; j += 2, to += kPanel) {
        const __m512i a = row(j, c), b = row(j + 1, c);
        _mm512_store_si512(to, _mm512_permutex2var_epi16(a, low, b));
        _mm512_store_si512(to + N, _mm512_permutex2var_epi16(a, high, b));
      }
    return wild == 0;
  }

  std::int64_t k_row_, slots_, slot_pairs_;
  Pair* memory_;
  std::int64_t* owner_;  // 2 owner + finite of each slot; -1: empty
};

// One step of a score multiplies two dimensions.
struct Pairs {
  using Packer = PairPacker;

  static constexpr std::int64_t steps(std::int64_t dim) { return divide_up(dim, 2); }

  static HWY_INLINE void load_query(float* to, const Problem& p, void* at) {
    auto* const row = reinterpret_cast<Pair*>(to);
    copy_row(row, p.q, at, p.dim, 2 * steps(p.dim));
    if (std::signbit(p.scale))
      for (std::int64_t i = 0; i < steps(p.dim); ++i)
        row[i].low.bits ^= 0x8000, row[i].high.bits ^= 0x8000;
  }

  static float unit(const Problem& p) { return std::abs(p.scale) * kLog2E; }
  template <int kHalves> static HWY_NOINLINE void scale(float* s, std::int64_t keys, float unit) {
    for (std::int64_t i = 0; i < keys * kStrip; i += N)
      hn::Store(hn::Mul(hn::Load(d, s + i), hn::Set(d, unit)), d, s + i);
  }

  // P = 2^(unit S - base), below `lead` rows of zeros.
  template <int kHalves>
  static HWY_INLINE void weigh(float* s, Range rows, float unit, const V (&base)[2], V (&sum)[2]) {
    if (rows.begin != 0) std::fill_n(s, rows.begin * kStrip, -kInfinity);
    weigh_pairs<kHalves>(s, rows.end, unit, base, sum);
  }
};

HWY_NOINLINE void forward_pairs(Call& call, int worker) {
  call.plan.arithmetic == plan::Arithmetic::kPairs ? forward<Pairs>(call, worker)
                                                   : forward<Float32>(call, worker);
}

// The row of AVX512-BF16 in the table of targets.
inline Target pairs_target(const char* name, bool (*present)()) {
  Target row = target(name, present);
  row.bfloat16 = plan::Arithmetic::kPairs;
  row.forward = forward_pairs;
  return row;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
