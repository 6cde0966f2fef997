// The steps of convert(), in their order.
#pragma once
#include <string_view>

#include "api/convert.hpp"
#include "api/fields.hpp"

namespace tessera::api {

using Desc = tessera_attention_desc;

// A tensor without data is absent, unless it says that it has no elements.
inline bool given(const tessera_tensor& t) {
  return t.data != nullptr || t.shape[0] == 0 || t.shape[1] == 0 || t.shape[2] == 0 ||
         t.shape[3] == 0;
}

// 1. Numbers and enumerations that need no tensor.
void convert_options(const Desc& desc, Call& call);

// 2. Each tensor by itself. Strides of dimensions with at most one element become 0, or 1 in the
// last dimension where it is no broadcast, so that index arithmetic cannot meet a stray number.
void convert_tensors(const Desc& desc, Purpose purpose, core::Problem& problem);
core::Tensor convert_tensor(const Field& field, const tessera_tensor& given_tensor);

// 3. The sizes of the problem, and each shape and dtype against them.
void convert_shapes(const Desc& desc, core::Problem& problem);

// 4. What the arrays of lengths, boundaries and pages hold.
void check_lengths(const core::Problem& problem);

// 5. Sizes that depend on the longest sequence; the diagonal, where it matters, must be named.
void check_broadcasts(const Desc& desc, const core::Problem& problem);
void check_alignment(const Desc& desc, const core::Problem& problem);

// 6. What is written lies apart from all else.
void check_outputs(const Desc& desc, const Call& call);

}  // namespace tessera::api
