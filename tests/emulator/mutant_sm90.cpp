// One problem through the Hopper kernel, whatever headers it is compiled with: `mutant SCHEDULE`
// prints what the emulator reports, or how far the result is from the definition.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/random.hpp"
#include "core/reference.hpp"
#include "device/kernel/forward_sm90.cuh"
#include "emulator/grid.hpp"
#include "emulator/tensor_map.hpp"
#include "plan/params.hpp"

namespace {

using namespace tessera;
using core::DType;
using core::Tensor;
using device::u32;
using device::u64;

// Four tiles of keys, so that each stage is filled twice, and two tiles of queries.
constexpr std::int64_t kQueries = 150, kKeys = 500, kHeads = 2, kDim = 64;

Tensor dense(std::vector<std::uint16_t>& data, std::int64_t rows, std::int64_t heads) {
  data.resize(std::size_t(rows * heads * kDim));
  return {data.data(),
          {1, rows, heads, kDim},
          {rows * heads * kDim, heads * kDim, kDim, 1},
          DType::kBfloat16};
}

device::TensorMap map_of(const Tensor& t, int rows) {
  const auto stride = [&](std::size_t d) { return u64(2 * t.stride[d]); };
  return emulator::encode({.base = t.data,
                           .rank = 4,
                           .extent = {u64(t.shape[3]), u64(t.shape[1]), u64(t.shape[2]), 1},
                           .stride = {2, stride(1), stride(2), stride(0)},
                           .box = {64, u32(rows), 1, 1},
                           .swizzle = device::Swizzle::k128B});
}

struct Problem {
  std::vector<std::uint16_t> q, k, v, out, want;
  core::Problem p;

  Problem() {
    p.batch = 1;
    p.heads = kHeads;
    p.kv_heads = 1;
    p.queries = kQueries;
    p.keys = kKeys;
    p.dim = p.value_dim = kDim;
    p.scale = 0.5;  // sharp: the running maximum grows
    p.right = 0;
    p.alignment = core::Alignment::kBottomRight;
    p.q = dense(q, kQueries, kHeads);
    p.k = dense(k, kKeys, 1);
    p.v = dense(v, kKeys, 1);
    p.out = dense(out, kQueries, kHeads);
    core::Draws draws(7);
    for (auto* data : {&q, &k, &v})
      for (std::uint16_t& x : *data)
        x = core::bfloat16_from_float(float(draws.between(-1000, 1000)) / 500);
  }
  double error() {
    core::Problem definition = p;
    definition.out = dense(want, kQueries, kHeads);
    core::reference::forward(definition);
    double off = 0, norm = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double x = double(core::float_from_bfloat16(out[i]));
      const double y = double(core::float_from_bfloat16(want[i]));
      off += (x - y) * (x - y);
      norm += y * y;
    }
    return std::sqrt(off / norm);
  }
};

emulator::GlobalMemory memory_of(Problem& problem) {
  emulator::GlobalMemory memory;
  memory.output("out", problem.out.data(), 2 * problem.out.size());
  memory.input("q", problem.q.data(), 2 * problem.q.size());
  memory.input("k", problem.k.data(), 2 * problem.k.size());
  memory.input("v", problem.v.data(), 2 * problem.v.size());
  return memory;
}

}  // namespace

int main(int count, char** arguments) {
  using C = device::WarpgroupConfig<device::Bfloat16, kDim>;
  Problem problem;
  const core::Problem& p = problem.p;
  const device::sm90::Params params{plan::forward_params(p), map_of(p.q, C::kTileQ),
                                    map_of(p.k, C::kTileK),  map_of(p.v, C::kTileK),
                                    map_of(p.out, 16),       true};
  emulator::GlobalMemory memory = memory_of(problem);
  try {
    emulator::launch({.grid = {(kQueries + C::kTileQ - 1) / C::kTileQ, kHeads, 1},
                      .threads = C::kThreads,
                      .shared_bytes = C::kSharedBytes,
                      .seed = std::strtoull(count > 2 ? arguments[2] : "1", nullptr, 10)},
                     memory, [&params] { device::sm90::forward<C>(params); });
  } catch (const emulator::Violation& v) {
    std::printf("VIOLATION %s\n", v.what());
    return 1;
  }
  const double error = problem.error();
  std::printf("%s relative error %.2e\n", error <= 5e-3 ? "RIGHT" : "WRONG", error);
  return error <= 5e-3 ? 0 : 1;
}
