// A pointer, a shape and strides, nothing else.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/dtype.hpp"

namespace tessera::core {

using Index4 = std::array<std::int64_t, 4>;

// Strides in elements; 0 and negative are fine. data == nullptr: absent, or empty.
struct Tensor {
  void* data = nullptr;
  Index4 shape{1, 1, 1, 1}, stride{1, 1, 1, 1};
  DType dtype = DType::kFloat32;

  bool present() const { return data != nullptr; }
  bool empty() const { return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0; }

  std::int64_t offset(std::int64_t a, std::int64_t b = 0, std::int64_t c = 0,
                      std::int64_t d = 0) const {
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
  std::byte* at(std::int64_t a, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0) const {
    return static_cast<std::byte*>(data) + offset(a, b, c, d) * size_of(dtype);
  }
  double load(std::int64_t a, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0) const {
    return load_element(dtype, at(a, b, c, d));
  }
  double load(const Index4& i) const { return load(i[0], i[1], i[2], i[3]); }
  std::int64_t load_int(std::int64_t a, std::int64_t b = 0) const {
    return dtype == DType::kInt64 ? read_as<std::int64_t>(at(a, b))
                                  : read_as<std::int32_t>(at(a, b));
  }
  void store(const Index4& i, double x) const {
    store_element(dtype, at(i[0], i[1], i[2], i[3]), x);
  }

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// The elements of the last dimension from `first` on, converted.
inline void load_row(const Tensor& t, const Index4& first, std::span<double> to) {
  const std::byte* from = t.at(first[0], first[1], first[2], first[3]);
  const std::int64_t step = t.stride[3] * size_of(t.dtype);
  const auto load = [&](auto type) {  // a constant where it can be: the loop then has no switch
    for (std::size_t d = 0; d < to.size(); ++d)
      to[d] = load_element(type, from + std::int64_t(d) * step);
  };
  switch (t.dtype) {
    case DType::kFloat32: return load(std::integral_constant<DType, DType::kFloat32>());
    case DType::kFloat16: return load(std::integral_constant<DType, DType::kFloat16>());
    case DType::kBfloat16: return load(std::integral_constant<DType, DType::kBfloat16>());
    default: return load(t.dtype);
  }
}
inline void store_row(const Tensor& t, const Index4& first, std::span<const double> from) {
  std::byte* to = t.at(first[0], first[1], first[2], first[3]);
  const std::int64_t step = t.stride[3] * size_of(t.dtype);
  for (std::size_t d = 0; d < from.size(); ++d)
    store_element(t.dtype, to + std::int64_t(d) * step, from[d]);
}

// Every element becomes x; an absent tensor has none.
inline void fill(const Tensor& t, double x) {
  if (!t.present()) return;
  for (std::int64_t a = 0; a < t.shape[0]; ++a)
    for (std::int64_t b = 0; b < t.shape[1]; ++b)
      for (std::int64_t c = 0; c < t.shape[2]; ++c)
        for (std::int64_t d = 0; d < t.shape[3]; ++d) t.store({a, b, c, d}, x);
}

}  // namespace tessera::core
