// Tensors of the calls beside attention: each checked by itself, then against the others.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "api/fields.hpp"
#include "core/rotary.hpp"
#include "core/tensor.hpp"
#include "tessera/tessera.h"

namespace tessera::api {

// A tensor and what sentences call it.
struct NamedTensor {
  std::string_view name;
  core::Tensor tensor;
};

// A required tensor, or one that may be absent; and one that the call writes.
NamedTensor read_tensor(std::string_view name, const tessera_tensor& given, TypeSet types);
NamedTensor read_optional(std::string_view name, const tessera_tensor& given, TypeSet types);
NamedTensor read_output(std::string_view name, const tessera_tensor& given, TypeSet types);

// The shape that t must have, in numbers and in letters, and the tensor that says so.
struct WantedShape {
  core::Index4 sizes;
  int rank;
  std::string_view letters, like;
};
void require_shape(const NamedTensor& t, const WantedShape& wanted);

// Its last size is the head dimension, 1 or more.
void require_dim(const NamedTensor& t);
void require_same_dtype(const NamedTensor& t, const NamedTensor& as);

// Tensors that are written lie apart from each other and from all that are read.
void require_apart(std::span<const NamedTensor> written, std::span<const NamedTensor> read);

// The tables of cosines and sines for rows of `x`; absent if both are.
core::Rotary read_rotary(std::uint32_t layout, const tessera_tensor& cos, const tessera_tensor& sin,
                         const NamedTensor& x);

// The words of a descriptor that this version gives no meaning.
void require_zero(std::string_view type, std::uint32_t flags, std::uint32_t reserved);

}  // namespace tessera::api
