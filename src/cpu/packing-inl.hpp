// Keys and values as the tiles want them: float32, unit stride, whole panels of columns.
#if defined(TESSERA_CPU_PACKING_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_PACKING_INL_HPP
#undef TESSERA_CPU_PACKING_INL_HPP
#else
#define TESSERA_CPU_PACKING_INL_HPP
#endif

#include <hwy/cache_control.h>
#include <algorithm>
#include <cstdint>

#include "cpu/call.hpp"
#include "cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using core::Problem;
using core::Range;
using core::Sequence;

constexpr std::int64_t kBlock = kTiles.block;
constexpr float kLog2E = 1.44269504f;
// What brings <q, k> to a score in units of log2.
HWY_INLINE float log2_scale(const Problem& p) { return float(p.scale) * kLog2E; }

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t padded(std::int64_t value_dim) {
  return divide_up(value_dim, kPanel) * kPanel;
}

// Bytes that will be wanted soon and that the processor does not foresee, since rows may lie far
// apart. Reaching past the end of a tensor is harmless here.
HWY_INLINE void prefetch(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(from + i);
}
HWY_INLINE void prefetch_rows(const core::Tensor& t, const core::Index4& first, std::int64_t rows) {
  const std::byte* from = t.at(first[0], first[1], first[2]);
  const std::int64_t size = core::size_of(t.dtype);
  for (std::int64_t i = 0; i < rows; ++i, from += t.stride[1] * size)
    prefetch(from, t.shape[3] * size);
}

// K and V of some keys of one head, as they lie or packed. Key j has its row of K at
// k + (j - first) * k_row and panel c of V at v + c * v_panel + (j - first) * v_row.
struct KeyBlock {
  const float *k, *v;
  std::int64_t first, k_row, v_row, v_panel;
  Range keys;  // that are wanted of it

  using Element = float;
  static constexpr std::int64_t lead() { return 0; }  // rows of t.s before those of `keys`
  // NaN in l for each row that sees a value which is not finite, where the copies leave those out.
  template <class Head> static void mark_rows(const float*, const Problem&, const Head&, float*) {}
  const float* key(std::int64_t j) const { return k + (j - first) * k_row; }
  const float* value(std::int64_t j, std::int64_t panel) const {
    return v + panel * v_panel + (j - first) * v_row;
  }
  ValueRows values(Range some, std::int64_t panel) const {
    return {value(some.begin, panel), v_row, some.size(), some.begin - keys.begin};
  }
};

// A copy holds the keys of one sequence, or of a row of k, which sequences may share: whose it is,
// and the keys that it has, whatever is visible.
inline bool by_sequence(const Problem& p) { return p.packed_keys() || p.paged(); }
inline std::int64_t owner_of_keys(const Problem& p, const Sequence& s) {
  return by_sequence(p) ? s.index : s.k_batch;
}
inline std::int64_t end_of_keys(const Problem& p, const Sequence& s) {
  return by_sequence(p) ? s.keys.end : p.keys;
}

// The blocks of the head that a worker packed last, each K [kBlock][dim] and V [panels][kBlock]
// [kPanel]. Workers do not share copies, since lines that another core has just written are slow to
// read. A block is packed when it is first wanted, so hidden ones cost nothing.
class Packer {
 public:
  Packer(const Problem& p, const plan::Plan& plan, float* memory)
      : packing_(plan.packing),
        slot_floats_(kBlock * (p.dim + padded(p.value_dim))),
        head_blocks_(divide_up(p.keys, kBlock)),
        memory_(memory) {
    if (packing_ == plan::Packing::kNone) return;
    slots_ = packing_ == plan::Packing::kHead ? divide_up(plan.longest_keys, kBlock) : 1;
    owner_ = reinterpret_cast<std::int64_t*>(memory + slots_ * slot_floats_);
    std::fill_n(owner_, slots_, std::int64_t{-1});
  }

  // The block of keys around `keys`, which does not cross a multiple of kBlock.
  KeyBlock operator()(const Problem& p, const Sequence& s, std::int64_t kv_head, Range keys) {
    if (packing_ == plan::Packing::kNone) return as_it_lies(p, s, kv_head, keys);
    const std::int64_t block = keys.begin / kBlock, slot = block % slots_;
    float* const memory = memory_ + slot * slot_floats_;
    const std::int64_t head = owner_of_keys(p, s) * p.kv_heads + kv_head;
    const std::int64_t owner = head * head_blocks_ + block;
    if (owner_[slot] != owner) pack(p, s, kv_head, block * kBlock, memory);
    owner_[slot] = owner;
    float* const values = memory + kBlock * p.dim;
    return {memory, values, block * kBlock, p.dim, kPanel, kBlock * kPanel, keys};
  }

 private:
  // Keys of one block lie in one page, or they are packed.
  static KeyBlock as_it_lies(const Problem& p, const Sequence& s, std::int64_t kv_head,
                             Range keys) {
    const core::KeyPlace at = p.place(s, s.index, keys.begin);
    const auto* k = reinterpret_cast<const float*>(p.k.at(at.batch, at.row, kv_head));
    const auto* v = reinterpret_cast<const float*>(p.v.at(at.batch, at.row, kv_head));
    return {k, v, keys.begin, p.k.stride[1], p.v.stride[1], kPanel, keys};
  }

  // All keys that the block has, whatever is visible. A row of k may be read by another sequence,
  // with another length, next.
  static HWY_NOINLINE void pack(const Problem& p, const Sequence& s, std::int64_t kv_head,
                                std::int64_t first, float* memory) {
    float* const values = memory + kBlock * p.dim;
    for (std::int64_t j = 0; j < std::min(kBlock, end_of_keys(p, s) - first); ++j) {
      const auto [batch, row] = p.place(s, s.index, first + j);
      load(memory + j * p.dim, p.k, p.k.at(batch, row, kv_head), p.dim);
      for (std::int64_t c = 0; c < p.value_dim; c += kPanel) {
        float* const panel = values + c * kBlock + j * kPanel;
        const std::int64_t n = std::min<std::int64_t>(p.value_dim - c, kPanel);
        load(panel, p.v, p.v.at(batch, row, kv_head, c), n);
        std::fill(panel + n, panel + kPanel, 0.f);
      }
    }
  }

  plan::Packing packing_;
  std::int64_t slots_ = 1, slot_floats_, head_blocks_;
  float* memory_;
  std::int64_t* owner_ = nullptr;  // of each slot; -1: empty
};

// The arithmetic of a forward, as its loops see it. One step of a score multiplies one dimension.
struct Float32 {
  using Packer = cpu::HWY_NAMESPACE::Packer;
  struct Session {};  // what a thread prepares for the time of its tasks

  static constexpr std::int64_t steps(std::int64_t dim) { return dim; }

  // In units of log2.
  static HWY_INLINE void load_query(float* to, const Problem& p, void* at) {
    load(to, p.q, at, p.dim);
    for (std::int64_t i = 0; i < p.dim; ++i) to[i] *= log2_scale(p);
  }

  // Brings O into the order of rows.
  template <class Strip> static void settle(Strip&, const Problem&) {}

  // What a score is multiplied by to be in units of log2, and that for some keys.
  static constexpr float unit(const Problem&) { return 1; }
  template <int kHalves> static void scale(float*, std::int64_t, float) {}

  // P = 2^(S - base) in place; sum = the sum of each row.
  template <int kHalves>
  static HWY_INLINE void weigh(float* s, Range rows, float, const V (&base)[2], V (&sum)[2]) {
    for (std::int64_t j = rows.begin; j < rows.end; ++j, s += kStrip)
      for (int half = 0; half < kHalves; ++half) {
        const V weight = exp2(hn::Sub(hn::Load(d, s + half * N), base[half]));
        sum[half] = hn::Add(sum[half], weight);
        hn::Store(weight, d, s + half * N);
      }
  }
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
