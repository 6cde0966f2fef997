// One problem through a kernel, whatever headers it is compiled with: `mutant SCENARIO SCHEDULE`
// prints what the emulator reports, or how far the result is from the definition.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "core/reference.hpp"
#include "device/kernel/forward_all.cuh"
#include "emulator/grid.hpp"
#include "plan/params.hpp"

namespace {

using namespace tessera;
using core::DType;
using core::Tensor;
using device::Weighing;

constexpr std::int64_t kQueries = 80, kKeys = 200, kHeads = 2, kDim = 64;

// [1, rows, heads, kDim]
struct Dense {
  std::vector<std::byte> bytes;
  Tensor tensor;

  Dense(DType dtype, std::int64_t rows, std::int64_t heads)
      : bytes(std::size_t(rows * heads * kDim * core::size_of(dtype))),
        tensor{bytes.data(),
               {1, rows, heads, kDim},
               {rows * heads * kDim, heads * kDim, kDim, 1},
               dtype} {}

  template <class Visit> void each(Visit visit) const {
    for (std::int64_t i = 0; i < tensor.shape[1]; ++i)
      for (std::int64_t h = 0; h < tensor.shape[2]; ++h)
        for (std::int64_t d = 0; d < kDim; ++d) visit(i, h, d);
  }
};

// [1, 1, kQueries, kKeys] of a mask or a bias; rows are whole chunks of 16 bytes and no more. The
// mask hides one tile of keys from the rows of the first warp.
struct Rows {
  static constexpr std::int64_t kDistance = 208;
  std::vector<std::byte> bytes;
  Tensor tensor;

  explicit Rows(DType dtype)
      : bytes(std::size_t(kQueries * kDistance * core::size_of(dtype))),
        tensor{bytes.data(), {1, 1, kQueries, kKeys}, {0, 0, kDistance, 1}, dtype} {
    for (std::int64_t i = 0; i < kQueries; ++i)
      for (std::int64_t j = 0; j < kKeys; ++j)
        if (dtype == DType::kBool)
          bytes[std::size_t(i * kDistance + j)] = std::byte(shown(i, j));
        else
          tensor.store({0, 0, i, j}, double((7 * i + 3 * j) % 5) / 2);
  }
  static bool shown(std::int64_t i, std::int64_t j) {
    return (i / 32 != 0 || j / 64 != 1) && (7 * i + 3 * j) % 5 != 0;
  }
};

struct Scenario {
  std::string_view name;
  DType dtype, out;
  float dropout;
  bool state;
  std::string_view pairs;  // mask, bias or neither
  double bound;
  void (*kernel)(const device::ForwardParams&);
  emulator::Launch launch;
};

template <class C> constexpr emulator::Launch launch_of() {
  return {.grid = {(kQueries + C::kTileQ - 1) / C::kTileQ, kHeads, 1},
          .threads = C::kThreads,
          .shared_bytes = C::kSharedBytes};
}

using Plain = device::Config<device::Bfloat16, kDim>;
using Wide = device::Config<device::Bfloat16, 256>;  // whose finished rows reach into the values
using Band = device::Config<device::Bfloat16, kDim, Weighing::kBand>;
using Pairs = device::Config<device::Bfloat16, kDim, Weighing::kPairs>;
using Exact = device::Config<device::Bfloat16, kDim, Weighing::kExact>;
using Words = device::Config<float, kDim, Weighing::kFloat32>;
constexpr DType kBfloat16 = DType::kBfloat16, kFloat32 = DType::kFloat32;

const Scenario kScenarios[] = {
    {"plain", kBfloat16, kBfloat16, 0, false, "", 5e-3, device::forward<Plain>, launch_of<Plain>()},
    {"dropout", kBfloat16, kBfloat16, 0.4f, false, "", 5e-3, device::forward<Plain>,
     launch_of<Plain>()},
    {"wide", kBfloat16, kBfloat16, 0, false, "", 5e-3, device::forward<Wide>, launch_of<Wide>()},
    {"band", kBfloat16, kBfloat16, 0, false, "", 5e-3, device::forward_band<Band>,
     launch_of<Band>()},
    {"mask", kBfloat16, kBfloat16, 0, false, "mask", 5e-3, device::forward_band<Pairs>,
     launch_of<Pairs>()},
    {"bias", kBfloat16, kBfloat16, 0, false, "bias", 5e-3, device::forward_band<Pairs>,
     launch_of<Pairs>()},
    {"exact", kBfloat16, kFloat32, 0, true, "", 2e-6, device::forward<Exact>, launch_of<Exact>()},
    {"float32", kFloat32, kFloat32, 0.4f, true, "", 2e-6, device::forward_f32<Words>,
     launch_of<Words>()},
};

struct Problem {
  Dense q, k, v, out, want, state;
  Rows pairs;
  std::vector<float> state_lse = std::vector<float>(kHeads * kQueries);
  core::Problem p;

  explicit Problem(const Scenario& s)
      : q(s.dtype, kQueries, kHeads),
        k(s.dtype, kKeys, 1),
        v(s.dtype, kKeys, 1),
        out(s.out, kQueries, kHeads),
        want(DType::kFloat64, kQueries, kHeads),
        state(kFloat32, kQueries, kHeads),
        pairs(s.pairs == "bias" ? kBfloat16 : DType::kBool) {
    p.batch = 1;
    p.heads = kHeads;
    p.kv_heads = 1;
    p.queries = kQueries;
    p.keys = kKeys;
    p.dim = p.value_dim = kDim;
    p.scale = 0.5;  // sharp: the running maximum grows
    p.right = 0;
    p.alignment = core::Alignment::kBottomRight;
    p.dropout = {s.dropout, 11, 3};
    core::Draws draws(7);
    for (const Dense* t : {&q, &k, &v, &state})
      t->each([&](std::int64_t i, std::int64_t h, std::int64_t d) {
        t->tensor.store({0, i, h, d}, double(draws.between(-1000, 1000)) / 500);
      });
    p.q = q.tensor;
    p.k = k.tensor;
    p.v = v.tensor;
    p.out = out.tensor;
    if (s.pairs == "mask") p.mask = pairs.tensor;
    if (s.pairs == "bias") p.bias = pairs.tensor;
    if (!s.state) return;
    for (std::size_t i = 0; i < state_lse.size(); ++i)
      state_lse[i] = float(i % 24);  // below and above what the rows have
    p.state_out = state.tensor;
    p.state_lse = {
        state_lse.data(), {1, kHeads, kQueries, 1}, {kHeads * kQueries, kQueries, 1, 0}, kFloat32};
  }
  double error() const {
    core::Problem definition = p;
    definition.out = want.tensor;
    core::reference::forward(definition);
    double off = 0, norm = 0;
    out.each([&](std::int64_t i, std::int64_t h, std::int64_t d) {
      const double x = out.tensor.load(0, i, h, d), y = want.tensor.load(0, i, h, d);
      off += (x - y) * (x - y);
      norm += y * y;
    });
    return std::sqrt(off / norm);
  }
  emulator::GlobalMemory memory() {
    emulator::GlobalMemory memory;
    memory.output("out", out.bytes.data(), out.bytes.size());
    memory.input("q", q.bytes.data(), q.bytes.size());
    memory.input("k", k.bytes.data(), k.bytes.size());
    memory.input("v", v.bytes.data(), v.bytes.size());
    memory.input("pairs", pairs.bytes.data(), pairs.bytes.size());
    memory.input("state_out", state.bytes.data(), state.bytes.size());
    memory.input("state_lse", state_lse.data(), state_lse.size() * sizeof(float));
    return memory;
  }
};

const Scenario& scenario(std::string_view name) {
  for (const Scenario& s : kScenarios)
    if (s.name == name) return s;
  std::printf("there is no scenario of that name\n");
  std::exit(2);
}

}  // namespace

int main(int count, char** arguments) {
  const Scenario& s = scenario(count > 1 ? arguments[1] : "plain");
  Problem problem(s);
  const device::ForwardParams params = plan::forward_params(problem.p);
  emulator::GlobalMemory memory = problem.memory();
  emulator::Launch launch = s.launch;
  launch.seed = std::strtoull(count > 2 ? arguments[2] : "1", nullptr, 10);
  try {
    emulator::launch(launch, memory, [&] { s.kernel(params); });
  } catch (const emulator::Violation& v) {
    std::printf("VIOLATION %s\n", v.what());
    return 1;
  }
  const double error = problem.error();
  std::printf("%s relative error %.2e\n", error <= s.bound ? "RIGHT" : "WRONG", error);
  return error <= s.bound ? 0 : 1;
}
