// An array in memory that owns or shares it: what the readers return and a call is given.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/tensor.hpp"
#include "tessera/tessera.h"

namespace tessera::tool {

// The first `rank` entries of shape and stride count; the others are 1. No data: absent.
struct Array {
  core::Tensor tensor;
  int rank = 0;
  std::shared_ptr<void> memory;

  bool present() const { return memory != nullptr; }
  std::span<const std::int64_t> shape() const { return {tensor.shape.data(), std::size_t(rank)}; }
};

// The bytes of a row-major array; nothing where they, or the strides, do not fit in 63 bits.
std::optional<std::int64_t> bytes_of(core::DType dtype, std::span<const std::int64_t> shape);

// A row-major view of memory that holds bytes_of(dtype, shape), at most four dimensions.
Array view_of(std::shared_ptr<void> memory, core::DType dtype, std::span<const std::int64_t> shape);

// Row-major and filled with zeros. Refuses sizes past 63 bits.
Array make_array(core::DType dtype, std::span<const std::int64_t> shape);

// Row-major without memory behind it: an address that is nobody's, for plans that read no data.
Array make_outline(core::DType dtype, std::span<const std::int64_t> shape);

std::int64_t count(const core::Tensor& tensor);

// The same elements with ones put before the shape until it has `rank` entries.
Array padded_in_front(const Array& array, int rank);

// A row-major copy, each element rounded once to nearest even.
Array converted(const Array& array, core::DType dtype);

// Calls visit(index) once for every index, the last one fastest.
template <class Visit> void for_each_index(const core::Index4& shape, Visit&& visit) {
  if (core::Tensor{.shape = shape}.empty()) return;  // an empty inner dimension, a huge outer one
  core::Index4 i{};
  for (i[0] = 0; i[0] < shape[0]; ++i[0])
    for (i[1] = 0; i[1] < shape[1]; ++i[1])
      for (i[2] = 0; i[2] < shape[2]; ++i[2])
        for (i[3] = 0; i[3] < shape[3]; ++i[3]) visit(i);
}

inline double load(const core::Tensor& tensor, const core::Index4& i) {
  return tensor.load(i[0], i[1], i[2], i[3]);
}

// "[2, 37, 4, 64]".
std::string shape_text(std::span<const std::int64_t> shape);

tessera_tensor to_c(const core::Tensor& tensor);

}  // namespace tessera::tool
