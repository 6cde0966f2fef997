#include "tools/tessera/array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector there is

std::shared_ptr<void> allocate(std::int64_t bytes) {
  const auto size = std::size_t(std::max<std::int64_t>(bytes, 1));
  void* memory = operator new(size, kAlignment, std::nothrow);
  if (memory == nullptr)
    throw Failure(kNotSupported, fmt::format("there is not enough memory here for an array of {} "
                                             "bytes; use a smaller problem",
                                             bytes));
  std::memset(memory, 0, size);
  return {memory, [](void* p) { operator delete(p, kAlignment); }};
}

// An address that no other outline has: the library compares ranges of addresses.
std::shared_ptr<void> address_of_nothing(std::int64_t bytes) {
  static std::uint64_t next = std::uint64_t{1} << 20;
  const std::uint64_t here = next;
  next += (std::uint64_t(bytes) + 127) / 64 * 64;
  return {reinterpret_cast<void*>(here), [](void*) {}};
}

std::int64_t bytes_or_refuse(core::DType dtype, std::span<const std::int64_t> shape) {
  const std::optional<std::int64_t> bytes = bytes_of(dtype, shape);
  if (!bytes)
    refuse(
        fmt::format("an array of shape {} takes more bytes than 63 bits can count; use a smaller "
                    "shape",
                    shape_text(shape)));
  return *bytes;
}

}  // namespace

std::optional<std::int64_t> bytes_of(core::DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t bytes = core::size_of(dtype), strides = bytes;
  for (const std::int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(strides, std::max<std::int64_t>(n, 1), &strides)) return {};
    bytes *= n;
  }
  return bytes;
}

Array view_of(std::shared_ptr<void> memory, core::DType dtype,
              std::span<const std::int64_t> shape) {
  Array a{{memory.get(), {1, 1, 1, 1}, {1, 1, 1, 1}, dtype}, int(shape.size()), std::move(memory)};
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    a.tensor.shape[d] = shape[d];
    a.tensor.stride[d] = stride;
    stride *= shape[d];
  }
  return a;
}

Array make_array(core::DType dtype, std::span<const std::int64_t> shape) {
  return view_of(allocate(bytes_or_refuse(dtype, shape)), dtype, shape);
}

Array make_outline(core::DType dtype, std::span<const std::int64_t> shape) {
  return view_of(address_of_nothing(bytes_or_refuse(dtype, shape)), dtype, shape);
}

std::int64_t count(const core::Tensor& tensor) {
  std::int64_t n = 1;
  for (const std::int64_t size : tensor.shape) n *= size;
  return n;
}

Array padded_in_front(const Array& array, int rank) {
  Array padded = array;
  const int ones = std::max(0, rank - array.rank);
  std::rotate(padded.tensor.shape.begin(), padded.tensor.shape.end() - ones,
              padded.tensor.shape.end());
  std::rotate(padded.tensor.stride.begin(), padded.tensor.stride.end() - ones,
              padded.tensor.stride.end());
  padded.rank = array.rank + ones;
  return padded;
}

Array converted(const Array& array, core::DType dtype) {
  Array copy = make_array(dtype, array.shape());
  for_each_index(array.tensor.shape,
                 [&](const core::Index4& i) { copy.tensor.store(i, load(array.tensor, i)); });
  return copy;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

tessera_tensor to_c(const core::Tensor& tensor) {
  tessera_tensor t = tessera_tensor_default();
  t.data = tensor.data;
  std::copy(tensor.shape.begin(), tensor.shape.end(), t.shape);
  std::copy(tensor.stride.begin(), tensor.stride.end(), t.stride);
  t.dtype = std::uint32_t(tensor.dtype);
  return t;
}

}  // namespace tessera::tool
