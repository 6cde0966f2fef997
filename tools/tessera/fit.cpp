#include "tools/tessera/fit.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using core::DType;

Array as_pairs(const Array& array) { return padded_in_front(array, 4); }

// Numbers of `thing`s, of which those beyond 32 bits are none.
Array as_int32(const std::string& name, const Array& array, std::string_view thing) {
  if (array.tensor.dtype == DType::kInt32) return array;
  Array narrow = make_array(DType::kInt32, array.shape());
  auto* to = static_cast<std::int32_t*>(narrow.tensor.data);
  for_each_index(array.tensor.shape, [&](const core::Index4& i) {
    const std::int64_t number = array.tensor.load_int(i[0], i[1]);
    if (number != std::int32_t(number))
      refuse(fmt::format("{} holds {}, which is no {}; give numbers of {}s", name, number, thing,
                         thing));
    *to++ = std::int32_t(number);
  });
  return narrow;
}

}  // namespace

[[noreturn]] void refuse_type(std::string_view name, const Array& array, std::string_view wanted) {
  refuse(fmt::format("{} holds {}; {}", name, core::name_of(array.tensor.dtype), wanted));
}

Array as_sequence(const std::string& name, const Array& array) {
  if (array.rank == 4) return array;
  if (array.rank == 3) return padded_in_front(array, 4);
  if (array.rank != 2)
    refuse(fmt::format("{} has shape {}; give [B, L, H, D], [L, H, D] or [L, D]", name,
                       shape_text(array.shape())));
  Array sequence = padded_in_front(array, 4);  // [1, 1, L, D]
  std::swap(sequence.tensor.shape[1], sequence.tensor.shape[2]);
  std::swap(sequence.tensor.stride[1], sequence.tensor.stride[2]);
  return sequence;
}

Array as_bias(const std::string& name, const Array& array) {
  if (!core::is_float(array.tensor.dtype))
    refuse_type(name, array, "a bias is of floating type; for booleans use --mask");
  const bool wide = array.tensor.dtype == DType::kFloat64;
  return as_pairs(wide ? converted(array, DType::kFloat32) : array);
}

Array as_mask(const std::string& name, const Array& array) {
  if (core::size_of(array.tensor.dtype) != 1)
    refuse_type(name, array, "a mask is bool or uint8; for numbers that are added use --bias");
  return as_pairs(array);
}

Array as_head_numbers(const std::string& name, const Array& array, int rank) {
  if (!core::is_float(array.tensor.dtype)) refuse_type(name, array, "floating types are accepted");
  if (array.rank < 1 || array.rank > rank)
    refuse(fmt::format("{} has shape {}; give [H]{}", name, shape_text(array.shape()),
                       rank == 2 ? " or [B, H]" : ""));
  return array.tensor.dtype == DType::kFloat32 ? array : converted(array, DType::kFloat32);
}

Array as_lengths(const std::string& name, const Array& array) {
  if (array.tensor.dtype != DType::kInt32 && array.tensor.dtype != DType::kInt64)
    refuse_type(name, array, "lengths are int32 or int64");
  if (array.rank != 1)
    refuse(fmt::format("{} has shape {}; give [B]", name, shape_text(array.shape())));
  return array;
}

Array as_boundaries(const std::string& name, const Array& array) {
  if (array.rank != 1)
    refuse(fmt::format("{} has shape {}; give [B + 1]", name, shape_text(array.shape())));
  return as_lengths(name, array);
}

Array as_cache_rows(const std::string& name, const Array& array) {
  if (array.tensor.dtype != DType::kInt32 && array.tensor.dtype != DType::kInt64)
    refuse_type(name, array, "row numbers are int32 or int64");
  if (array.rank != 1)
    refuse(fmt::format("{} has shape {}; give [B]", name, shape_text(array.shape())));
  return as_int32(name, array, "row");
}

Array as_table(const std::string& name, const Array& array) {
  if (array.tensor.dtype != DType::kInt32 && array.tensor.dtype != DType::kInt64)
    refuse_type(name, array, "page numbers are int32 or int64");
  if (array.rank != 2)
    refuse(fmt::format("{} has shape {}; give [B, max_pages]", name, shape_text(array.shape())));
  return as_int32(name, array, "page");
}

}  // namespace tessera::tool
