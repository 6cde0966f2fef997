// Tessera: exact attention. Views of tensors, and the exception; included by tessera.hpp.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tessera/tessera.h"

namespace tessera {

// ---- Errors ----

class Error : public std::runtime_error {
 public:
  Error(tessera_status status, const char* sentence)
      : std::runtime_error(sentence), status_(status) {}
  tessera_status status() const noexcept { return status_; }

 private:
  tessera_status status_;
};

namespace detail {

// Calls a function of the C interface with an error to fill, and throws what it reports.
template <class Function> void checked(const Function& function) {
  tessera_error error = tessera_error_default();
  const tessera_status status = function(&error);
  if (status != TESSERA_OK) throw Error(status, error.message);
}

// The text of a function that fills a buffer: a first call asks for the size.
template <class Function> std::string text_of(const Function& function) {
  char* const nowhere = nullptr;
  std::uint64_t needed = 0, none = 0;
  checked([&](tessera_error* error) { return function(nowhere, none, &needed, error); });
  std::string text(needed, '\0');
  checked([&](tessera_error* error) { return function(text.data(), needed, &needed, error); });
  text.resize(std::min<std::size_t>(text.size(), needed) - 1);  // the 0 at its end
  return text;
}

}  // namespace detail

// ---- Tensors ----

// The bits of a number of 16 bits.
enum class float16 : std::uint16_t {};
enum class bfloat16 : std::uint16_t {};

template <class T> inline constexpr std::uint32_t dtype_of = 0;
template <> inline constexpr std::uint32_t dtype_of<float> = TESSERA_FLOAT32;
template <> inline constexpr std::uint32_t dtype_of<double> = TESSERA_FLOAT64;
template <> inline constexpr std::uint32_t dtype_of<float16> = TESSERA_FLOAT16;
template <> inline constexpr std::uint32_t dtype_of<bfloat16> = TESSERA_BFLOAT16;
template <> inline constexpr std::uint32_t dtype_of<std::int32_t> = TESSERA_INT32;
template <> inline constexpr std::uint32_t dtype_of<std::int64_t> = TESSERA_INT64;
template <> inline constexpr std::uint32_t dtype_of<std::uint8_t> = TESSERA_UINT8;
template <> inline constexpr std::uint32_t dtype_of<bool> = TESSERA_BOOL;

template <class T>
concept Element = dtype_of<std::remove_const_t<T>> != 0;

using Sizes = std::initializer_list<std::int64_t>;

// A view of elements that belong to someone else. Without arguments: absent. Sizes that are not
// given are 1; strides are counted in elements, and without them the tensor is dense. Elements that
// are const make a tensor that the library refuses to write.
class Tensor {
 public:
  Tensor() : c_(tessera_tensor_default()) {}
  Tensor(const tessera_tensor& c) : c_(c) {}  // NOLINT: a view of the same thing

  template <Element T> Tensor(T* data, Sizes shape, Sizes strides = {}) : Tensor() {
    c_.data = const_cast<std::remove_const_t<T>*>(data);
    c_.dtype = dtype_of<std::remove_const_t<T>>;
    c_.flags = std::is_const_v<T> ? std::uint32_t{TESSERA_READ_ONLY} : 0;
    set_shape(shape, strides);
  }

  // Of a dense tensor, whose elements must be as many as its shape says.
  template <Element T> Tensor(std::span<T> data, Sizes shape) : Tensor(data.data(), shape) {
    std::uint64_t elements = 1;
    for (const std::int64_t size : shape) elements *= std::uint64_t(size);
    if (elements != data.size())
      throw Error(TESSERA_INVALID_ARGUMENT, wrong_count(data.size(), elements).c_str());
  }

  const tessera_tensor& c() const { return c_; }
  std::int64_t size(std::size_t dimension) const { return c_.shape[dimension]; }

 private:
  static std::string wrong_count(std::uint64_t there, std::uint64_t wanted) {
    return "a span of " + std::to_string(there) + " elements is given a shape of " +
           std::to_string(wanted) + "; pass a shape whose sizes multiply to the span's, or a " +
           "pointer with strides";
  }

  void set_shape(Sizes shape, Sizes strides) {
    if (shape.size() > 4 || (strides.size() != 0 && strides.size() != shape.size()))
      throw Error(TESSERA_INVALID_ARGUMENT,
                  "a tensor has at most 4 sizes, and as many strides or none; drop or merge "
                  "dimensions, or give each its stride");
    std::copy(shape.begin(), shape.end(), c_.shape);
    for (int d = 2; d >= 0;
         --d)  // unsigned: a size beyond reason wraps, and is refused by the call
      c_.stride[d] = std::int64_t(std::uint64_t(c_.stride[d + 1]) * std::uint64_t(c_.shape[d + 1]));
    std::copy(strides.begin(), strides.end(), c_.stride);
  }

  tessera_tensor c_;
};

}  // namespace tessera
