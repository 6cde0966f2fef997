// A small call with tensors that nothing reads, and its plan.
#pragma once
#include "core/problem.hpp"
#include "plan/gpu.hpp"

namespace tessera::test {

inline plan::Gpu hopper() {
  return {.name = "Fake GPU", .arch = 90, .multiprocessors = 132, .shared_bytes = 232448};
}

// B 2, Lq 100, Lk 150, H 4, Hk 2, D = Dv = `dim`, dense.
inline core::Problem small_problem(std::int64_t dim = 128,
                                   core::DType dtype = core::DType::kBfloat16) {
  alignas(256) static std::byte memory[256];
  core::Problem p;
  p.batch = 2, p.heads = 4, p.kv_heads = 2;
  p.queries = 100, p.keys = 150, p.dim = p.value_dim = dim;
  const auto dense = [&](std::int64_t rows, std::int64_t heads) {
    return core::Tensor{
        memory, {2, rows, heads, dim}, {rows * heads * dim, heads * dim, dim, 1}, dtype};
  };
  p.q = p.out = dense(100, 4);
  p.k = p.v = dense(150, 2);
  return p;
}

}  // namespace tessera::test
