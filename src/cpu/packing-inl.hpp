// Keys and values as the tiles want them: float32, unit stride, whole panels of columns.
#if defined(TESSERA_CPU_PACKING_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_PACKING_INL_HPP
#undef TESSERA_CPU_PACKING_INL_HPP
#else
#define TESSERA_CPU_PACKING_INL_HPP
#endif

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

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t padded(std::int64_t value_dim) {
  return divide_up(value_dim, kPanel) * kPanel;
}

// K and V of some keys of one head, as they lie or packed. Key j has its row of K at
// k + (j - first) * k_row and panel c of V at v + c * v_panel + (j - first) * v_row.
struct KeyBlock {
  const float *k, *v;
  std::int64_t first, k_row, v_row, v_panel;
  Range keys;  // that are wanted of it

  const float* key(std::int64_t j) const { return k + (j - first) * k_row; }
  const float* value(std::int64_t j, std::int64_t panel) const {
    return v + panel * v_panel + (j - first) * v_row;
  }
};

// The blocks of the head that a worker packed last, each K [kBlock][dim] and V [panels][kBlock]
// [kPanel]. Workers do not share copies, since lines that another core has just written are slow to
// read. A block is packed when it is first wanted, so hidden ones cost nothing.
class Packer {
 public:
  Packer(const Problem& p, plan::Packing packing, float* memory)
      : packing_(packing), slot_floats_(kBlock * (p.dim + padded(p.value_dim))), memory_(memory) {
    if (packing == plan::Packing::kNone) return;
    slots_ = packing == plan::Packing::kHead ? divide_up(p.keys, kBlock) : 1;
    owner_ = reinterpret_cast<std::int64_t*>(memory + slots_ * slot_floats_);
    std::fill_n(owner_, slots_, std::int64_t{-1});
  }

  // The block of keys around `keys`, which does not cross a multiple of kBlock.
  KeyBlock operator()(const Problem& p, const Sequence& s, std::int64_t kv_head, Range keys) {
    if (packing_ == plan::Packing::kNone) return as_it_lies(p, s, kv_head, keys);
    const std::int64_t block = keys.begin / kBlock, slot = block % slots_;
    float* const memory = memory_ + slot * slot_floats_;
    const std::int64_t head = s.k_batch * p.kv_heads + kv_head;
    const std::int64_t owner = head * divide_up(p.keys, kBlock) + block;
    if (owner_[slot] != owner) pack(p, s, kv_head, block * kBlock, memory);
    owner_[slot] = owner;
    float* const values = memory + kBlock * p.dim;
    return {memory, values, block * kBlock, p.dim, kPanel, kBlock * kPanel, keys};
  }

 private:
  static KeyBlock as_it_lies(const Problem& p, const Sequence& s, std::int64_t kv_head,
                             Range keys) {
    const auto* k = reinterpret_cast<const float*>(p.k.at(s.k_batch, s.k_begin, kv_head));
    const auto* v = reinterpret_cast<const float*>(p.v.at(s.k_batch, s.k_begin, kv_head));
    return {k, v, 0, p.k.stride[1], p.v.stride[1], kPanel, keys};
  }

  // All keys that the block has room for, whatever is visible: sequences may share a cache row.
  static HWY_NOINLINE void pack(const Problem& p, const Sequence& s, std::int64_t kv_head,
                                std::int64_t first, float* memory) {
    float* const values = memory + kBlock * p.dim;
    for (std::int64_t j = 0; j < std::min(kBlock, p.keys - first); ++j) {
      const std::int64_t row = s.k_begin + first + j;
      load(memory + j * p.dim, p.k, p.k.at(s.k_batch, row, kv_head), p.dim);
      for (std::int64_t c = 0; c < p.value_dim; c += kPanel) {
        float* const panel = values + c * kBlock + j * kPanel;
        const std::int64_t n = std::min<std::int64_t>(p.value_dim - c, kPanel);
        load(panel, p.v, p.v.at(s.k_batch, row, kv_head, c), n);
        std::fill(panel + n, panel + kPanel, 0.f);
      }
    }
  }

  plan::Packing packing_;
  std::int64_t slots_ = 1, slot_floats_;
  float* memory_;
  std::int64_t* owner_ = nullptr;  // of each slot; -1: empty
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
