// Tensors whose strides reach further than any memory: a range of addresses of which only the pages
// that are touched exist.
#pragma once
#include <cstdint>

#include "support/array.hpp"

namespace tessera::test {

class SparseTensor {
 public:
  // Non-negative strides, in elements. present() is false where the system lends no such range.
  SparseTensor(DType dtype, const Index4& shape, const Index4& stride);
  ~SparseTensor();
  SparseTensor(const SparseTensor&) = delete;
  SparseTensor& operator=(const SparseTensor&) = delete;

  bool present() const { return view_.data != nullptr; }
  tessera_tensor abi() const { return abi_tensor(view_); }

  void copy_from(const Array& a) { copy_rows_from(a, 0); }
  // Its rows become those from `first` on.
  void copy_rows_from(const Array& a, std::int64_t first);
  Array copied() const;  // densely

 private:
  core::Tensor view_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tessera::test
