// A tensor that owns its memory. Every byte that is no element of it holds poison, at both ends and
// in the gaps that strides leave, so that a stray read gives NaN and a stray write is seen.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"
#include "tessera/tessera.h"

namespace tessera::test {

using core::DType;
using core::Index4;

// How a tensor [batch, sequence, heads, dim] lies in memory.
enum class Layout {
  kDense,          // [B, L, H, D]
  kHeadsFirst,     // [B, H, L, D]
  kTransposed,     // [B, H, D, L]: the last dimension has a stride
  kSpread,         // dense, but every third element
  kPadded,         // dense, but rows have a gap at their end
  kReversed,       // the sequence runs backwards
  kSharedByHeads,  // stride 0: all heads are one
  kAligned,        // dense, but rows begin at multiples of 16 bytes, as a copy engine wants them
};
// Those that every backend takes.
inline constexpr Layout kLayouts[] = {
    Layout::kDense,  Layout::kHeadsFirst, Layout::kTransposed,   Layout::kSpread,
    Layout::kPadded, Layout::kReversed,   Layout::kSharedByHeads};
std::string_view name_of(Layout layout);

// Rounds x to an element of any type.
void store(const core::Tensor& t, const Index4& i, double x);

class Array {
 public:
  Array() = default;  // absent
  Array(DType dtype, const Index4& shape, Layout layout = Layout::kDense);

  bool present() const { return !bytes_.empty(); }
  DType dtype() const { return view_.dtype; }
  const Index4& shape() const { return view_.shape; }
  std::int64_t count() const {
    return view_.shape[0] * view_.shape[1] * view_.shape[2] * view_.shape[3];
  }

  double at(std::int64_t a, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0) const {
    return tensor().load(a, b, c, d);
  }
  void set(const Index4& i, double x) { store(tensor(), i, x); }

  std::byte* where(const Index4& i) { return tensor().at(i[0], i[1], i[2], i[3]); }

  core::Tensor tensor() const;
  tessera_tensor abi() const;  // the absent tensor, if this one is

  // Makes dimension `axis`, of size 1, look like `size` with stride 0.
  void expand(int axis, std::int64_t size);

  Array converted(DType dtype, Layout layout = Layout::kDense) const;
  std::vector<std::byte> elements() const;  // densely, as in shape

  void poison();  // the elements too: NaN where they float, true where they are bool
  bool surroundings_intact() const;

  // Calls f(index) for every element, in dense order.
  template <class F> void for_each(F f) const {
    const Index4& n = view_.shape;
    for (std::int64_t a = 0; a < n[0]; ++a)
      for (std::int64_t b = 0; b < n[1]; ++b)
        for (std::int64_t c = 0; c < n[2]; ++c)
          for (std::int64_t d = 0; d < n[3]; ++d) f(Index4{a, b, c, d});
  }

  // Sets every element to f(index).
  template <class F> void fill(F f) {
    for_each([&](const Index4& i) { set(i, f(i)); });
  }

 private:
  std::vector<std::byte> bytes_;
  std::int64_t origin_ = 0;  // of element [0, 0, 0, 0], in bytes
  core::Tensor view_;        // without data, so that copies are deep
};

// The number of element `i` in dense order.
std::int64_t dense_index(const Index4& shape, const Index4& i);

tessera_tensor abi_tensor(const core::Tensor& t);

}  // namespace tessera::test
