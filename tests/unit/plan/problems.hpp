// Problems that a planner can look at: shapes, strides and which options are present, but no data.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/problem.hpp"

namespace tessera::test {

struct Shape {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, dim = 1, value_dim = 1;
};

// Present, though there is nothing behind it.
inline void* some_data() {
  static std::int64_t data[2];
  return data;
}

// Rows of one head side by side ([B, H, L, D]), the layout that needs no packing.
inline core::Tensor heads_first(core::DType dtype, const core::Index4& shape) {
  core::Tensor t;
  t.data = some_data();
  t.dtype = dtype;
  t.shape = shape;
  t.stride = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  return t;
}

inline core::Problem problem_of(const Shape& s, core::DType dtype = core::DType::kFloat32) {
  core::Problem p;
  p.batch = s.batch, p.heads = s.heads, p.kv_heads = s.kv_heads;
  p.queries = s.queries, p.keys = s.keys;
  p.dim = s.dim, p.value_dim = s.value_dim;
  p.q = heads_first(dtype, {s.batch, s.queries, s.heads, s.dim});
  p.k = heads_first(dtype, {s.batch, s.keys, s.kv_heads, s.dim});
  p.v = heads_first(dtype, {s.batch, s.keys, s.kv_heads, s.value_dim});
  p.out = heads_first(dtype, {s.batch, s.queries, s.heads, s.value_dim});
  p.scale = 0.125f;
  return p;
}

// One dimension of int32; `values` must outlive the tensor.
template <std::size_t n> core::Tensor integers(std::int32_t (&values)[n]) {
  core::Tensor t;
  t.data = values;
  t.dtype = core::DType::kInt32;
  t.shape = {std::int64_t(n), 1, 1, 1};
  return t;
}

inline core::Tensor present() {
  core::Tensor t;
  t.data = some_data();
  return t;
}

}  // namespace tessera::test
