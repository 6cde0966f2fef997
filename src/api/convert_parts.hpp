// The steps of convert(), in their order, and what both passes share of them.
#pragma once
#include <cstdint>
#include <span>
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

// Scratch that a call is lent.
void check_workspace(const void* workspace, std::uint64_t bytes);

// Doubles that the reference backend alone fills.
void check_diagnostics(std::string_view name, const double* place, std::uint32_t backend);

// 2. Each tensor by itself. Strides of dimensions with at most one element become 0, or 1 in the
// last dimension where it is no broadcast, so that index arithmetic cannot meet a stray number.
void convert_tensors(const Desc& desc, Purpose purpose, Call& call);

// One such tensor. Without data it is refused where data is needed.
struct About {
  std::string_view name;
  TypeSet types;
  Rule rule = Rule::kLetters;
  const Where* where = nullptr;  // on this device; nullptr: on the CPU
};
core::Tensor convert_tensor(const About& about, const tessera_tensor& given);
void check_data(std::string_view name, const tessera_tensor& given, Purpose purpose);

// 3. The sizes of the problem, and each shape and dtype against them.
void convert_shapes(const Desc& desc, core::Problem& problem);

// 4. What the arrays of lengths, boundaries and pages hold. On a GPU they are not looked at, here
// and in 5: a kernel keeps to what exists, whatever they hold.
void check_lengths(const Call& call);

// 5. Sizes that depend on the longest sequence; the diagonal, where it matters, must be named.
void check_broadcasts(const Desc& desc, const Call& call);
void check_alignment(const Desc& desc, const Call& call);

// 1 to 5: what both passes read.
Call convert_inputs(const Desc& desc, Purpose purpose);

// 6. What is written lies apart from all else.
void check_outputs(const Desc& desc, const Call& call);

// What is written may be, and has each element in a place of its own.
void check_writable(std::string_view name, const tessera_tensor& given, const core::Tensor& t);

// No tensor of `written` shares memory with another of them or with one of `read`.
struct Named {
  std::string_view name;
  const core::Tensor* tensor;
};
void check_apart(std::span<const Named> written, std::span<const Named> read);

core::Tensor bytes_at(void* data, std::uint64_t bytes);

// The sizes that are shown of a shape: all but those of 1 at its end, and at least so many.
int rank_of(const core::Index4& shape, int least);

}  // namespace tessera::api
