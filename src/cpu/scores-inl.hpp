// What happens to the scores of a block between Q K^T and the softmax: soft cap, ALiBi, bias, mask.
#if defined(TESSERA_CPU_SCORES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_SCORES_INL_HPP
#undef TESSERA_CPU_SCORES_INL_HPP
#else
#define TESSERA_CPU_SCORES_INL_HPP
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/packing-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// One (sequence, head) of the problem.
struct Head {
  std::int64_t b, h, kv_head;
  Sequence sequence;

  Head(const Problem& p, std::int64_t sequence_index, std::int64_t head)
      : b(sequence_index), h(head), kv_head(p.kv_head(h)), sequence(p.sequence(b)) {}
  Head(const Problem& p, std::int64_t index) : Head(p, index / p.heads, index % p.heads) {}
};

enum class Seen { kNone, kSome, kAll };

inline Seen operator|(Seen a, Seen b) { return a == b ? a : Seen::kSome; }

// Whether n bytes are all zero, all not, or both.
HWY_INLINE Seen scan_bytes(const std::uint8_t* from, std::int64_t stride, std::int64_t n) {
  constexpr std::uint64_t low = 0x0101010101010101u, high = 0x8080808080808080u;
  std::uint64_t any = 0, zero = 0;  // a bit for a byte that is not 0, and for one that is (Mycroft)
  const auto look = [&](std::uint64_t word) { any |= word, zero |= (word - low) & ~word & high; };
  if (stride == 0) n = std::min<std::int64_t>(n, 1);
  std::int64_t i = 0;
  for (; stride == 1 && i + 8 <= n; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, from + i, 8);
    look(word);
  }
  for (; i < n; ++i) look(from[i * stride] * low);
  return zero == 0 ? Seen::kAll : any != 0 ? Seen::kSome : Seen::kNone;
}

// The scores of a strip after Q K^T, in units of log2.
class Modifiers {
 public:
  // bias [kBlock][kStrip] and rows [kTogether][kBlock] are scratch.
  Modifiers(const Problem& p, float* scratch)
      : p_(p), cap_(p.softcap * kLog2E), bias_(scratch), rows_(scratch + kBlock * kStrip) {}

  static std::int64_t scratch_floats(const Problem& p) {
    return p.mask.present() || p.bias.present() ? kBlock * (kStrip + kTogether) : 0;
  }

  // What the boolean mask says of a block, looked at once.
  Seen scan(const Head& head, Range rows, Range keys) const {
    if (!p_.mask.present()) return Seen::kAll;
    const std::int64_t end = p_.mask.stride[2] == 0 ? rows.begin + 1 : rows.end;
    const auto row = [&](std::int64_t i) {
      return scan_bytes(mask_at(head, i, keys.begin), p_.mask.stride[3], keys.size());
    };
    for (std::int64_t i = rows.begin; i < end && p_.mask.stride[3] == 1; ++i)
      prefetch(p_.mask.at(head.b, head.h, i, keys.begin + kBlock), kBlock);
    Seen seen = row(rows.begin);
    for (std::int64_t i = rows.begin + 1; i < end && seen != Seen::kSome; ++i) seen = seen | row(i);
    return seen;
  }

  bool needed(Seen seen) const {
    return seen == Seen::kSome || cap_ != 0 || p_.alibi.present() || p_.bias.present();
  }

  // Changes s [keys][kStrip] in place; hides what the band, the bias or the mask hide.
  template <int kHalves>
  HWY_NOINLINE void apply(const Head& head, Range rows, Range keys, Seen seen, float* s) const {
    const bool biased = p_.bias.present() || seen == Seen::kSome;
    if (biased) gather(head, rows, keys, seen == Seen::kSome);
    const core::Band& band = head.sequence.band;
    const bool sloped = p_.alibi.present();
    const float slope = sloped ? float(p_.alibi.load(head.b, head.h)) * kLog2E : 0.f;
    const float* bias = bias_;
    for (std::int64_t j = keys.begin; j < keys.end; ++j, bias += kStrip, s += kStrip) {
      const std::int64_t diagonal = j - band.offset - rows.begin;  // the lane that has j on it
      const float low = float(diagonal - band.right), high = float(diagonal + band.left);
      for (int half = 0; half < kHalves; ++half) {
        V x = hn::Load(d, s + half * N);
        if (cap_ != 0) x = hn::Mul(hn::Set(d, cap_), tanh(hn::Mul(x, hn::Set(d, 1 / cap_))));
        if (sloped) x = hn::NegMulAdd(hn::Set(d, slope), distance(half, diagonal), x);
        x = biased ? add_bias(x, hn::Load(d, bias + half * N)) : keep_visible(x);
        hn::Store(hide_unless(lanes_within(half, low, high), x), d, s + half * N);
      }
    }
  }

 private:
  const std::uint8_t* mask_at(const Head& head, std::int64_t i, std::int64_t j) const {
    return reinterpret_cast<const std::uint8_t*>(p_.mask.at(head.b, head.h, i, j));
  }

  static V distance(int half, std::int64_t diagonal) {
    return hn::Abs(hn::Sub(hn::Iota(d, float(half * N)), hn::Set(d, float(diagonal))));
  }

  // A finite score stays finite, hence visible, where the unit of log2 or a sum would overflow; the
  // row is computed with care if such scores are its largest. A NaN passes the comparison.
  static V keep_visible(V x) {
    const V low = hn::Set(d, kLowest);
    return hn::IfThenElse(hn::Lt(x, low), low, x);
  }

  static V add_bias(V x, V bias) {
    return hide_unless(hn::Not(hn::Eq(bias, hn::Set(d, -kInfinity))),
                       keep_visible(hn::Add(x, bias)));
  }

  // The bias of the block, keys by queries, with -inf for what the mask hides: a hidden pair has
  // one spelling, whatever its bias holds. Rows past the last see nothing.
  void gather(const Head& head, Range rows, Range keys, bool masked) const {
    const bool alike =
        (!p_.bias.present() || p_.bias.stride[2] == 0) && (!masked || p_.mask.stride[2] == 0);
    for (std::int64_t r = 0; r < kStrip; r += kTogether) {
      for (std::int64_t i = 0; i < kTogether; ++i) {
        float* row = rows_ + i * kBlock;
        if (r + i >= rows.size())
          std::fill_n(row, keys.size(), -kInfinity);
        else if (!alike || r == 0)
          gather_row(row, head, rows.begin + r + i, keys, masked);
      }
      transpose_rows(bias_ + r, rows_, kBlock, keys.size());
    }
  }

  void gather_row(float* row, const Head& head, std::int64_t i, Range keys, bool masked) const {
    std::fill_n(row, keys.size(), 0.f);
    if (p_.bias.present()) {
      if (p_.bias.stride[3] == 1)
        prefetch(p_.bias.at(head.b, head.h, i, keys.begin + kBlock),
                 kBlock * core::size_of(p_.bias.dtype));
      load(row, p_.bias, p_.bias.at(head.b, head.h, i, keys.begin), keys.size());
      for (std::int64_t j = 0; j < keys.size(); ++j)
        row[j] = row[j] == -kInfinity ? row[j] : std::max(row[j] * kLog2E, kLowest);
    }
    if (!masked) return;
    const std::uint8_t* mask = mask_at(head, i, keys.begin);
    const std::int64_t stride = p_.mask.stride[3];
    if (stride == 1)  // the compiler vectorises this one
      for (std::int64_t j = 0; j < keys.size(); ++j) row[j] = mask[j] != 0 ? row[j] : -kInfinity;
    else
      for (std::int64_t j = 0; j < keys.size(); ++j)
        row[j] = mask[j * stride] != 0 ? row[j] : -kInfinity;
  }

  const Problem& p_;
  float cap_;  // in units of log2; 0: none
  float* bias_;
  float* rows_;
};

// What happens to a weight of key j (counted from the first of its block) on its way to P V, and to
// the lanes that see it. KeptPairs (dropout-inl.hpp) is the other kind.
struct EveryPair {
  template <class X> HWY_INLINE X keep(X x, int, std::int64_t) const { return x; }
  template <int kHalves> static void drop(float*, std::int64_t) {}
};

// The keys of a block that some row still sees, as runs. A key that no row of the strip sees
// is never multiplied, so whatever its value holds has no effect.
struct Runs {
  Range run[kBlock / 2 + 1];
  int size = 0;
};

template <int kHalves, class Pairs = EveryPair>
HWY_INLINE void find_runs(const float* s, std::int64_t rows, Range keys, Runs& runs,
                          const Pairs& pairs = {}) {
  runs.size = 0;
  bool open = false;
  for (std::int64_t j = keys.begin; j < keys.end; ++j, s += kStrip) {
    bool live = false;
    for (int half = 0; half < kHalves; ++half) {
      const auto hidden = hn::Eq(hn::Load(d, s + half * N), hn::Set(d, -kInfinity));
      const auto seen = hn::AndNot(hidden, lanes_within(half, 0, float(rows - 1)));
      live |= !hn::AllFalse(d, pairs.keep(seen, half, j - keys.begin));
    }
    if (live && !open) runs.run[runs.size++].begin = j;
    if (live) runs.run[runs.size - 1].end = j + 1;
    open = live;
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
