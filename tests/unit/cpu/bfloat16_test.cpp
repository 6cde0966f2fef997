// The words of AVX512-BF16 and AMX against plain loops, and the forward of AMX over an emulation of
// its tiles, on processors that have no such thing.
#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "unit/cpu/bfloat16_words-inl.hpp"
#include <hwy/foreach_target.h>
//
#include "unit/cpu/bfloat16_words-inl.hpp"

#if HWY_ONCE
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.hpp"
#include "core/reference.hpp"
#include "support/compare.hpp"
#include "support/random_case.hpp"
#include "unit/cpu/calls.hpp"

namespace tessera::test {

const Bfloat16Words& bfloat16_words() {
  static const Bfloat16Words words = bfloat16::N_AVX3::words();
  return words;
}

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Bfloat16 : public testing::Test {
 protected:
  void SetUp() override {
    for (const cpu::TargetInfo& target : cpu::targets())
      if (target.name == "avx512bf16" && !target.present)
        GTEST_SKIP() << "no AVX512-BF16 in this processor";
  }

  // Small whole numbers, so that every sum is exact in any order.
  std::uint16_t number() { return core::bfloat16_from_float(float(draws_.between(-9, 9))); }
  std::vector<std::uint16_t> numbers(std::int64_t n) {
    std::vector<std::uint16_t> x(static_cast<std::size_t>(n));
    for (std::uint16_t& y : x) y = number();
    return x;
  }
  std::vector<std::uint32_t> pairs(std::int64_t n) {
    std::vector<std::uint32_t> x(static_cast<std::size_t>(n));
    for (std::uint32_t& y : x) y = std::uint32_t(number()) << 16 | number();
    return x;
  }

  const Bfloat16Words& w = bfloat16_words();
  core::Draws draws_{7};
};

float low(std::uint32_t pair) { return core::float_from_bfloat16(std::uint16_t(pair)); }
float high(std::uint32_t pair) { return core::float_from_bfloat16(std::uint16_t(pair >> 16)); }
float dot(std::uint32_t a, std::uint32_t b) { return low(a) * low(b) + high(a) * high(b); }

TEST_F(Bfloat16, Exp2KeepsThePromisesOfTheOther) {
  std::vector<float> x{0.f, -0.f, -kInfinity, -3e38f, -1e6f, -300.f, NAN};
  for (int e = -126; e < 0; ++e) x.push_back(float(e));
  const std::size_t exact = x.size();
  for (int i = 0; i < 400'000; ++i) x.push_back(-126.f * float(i) / 400'000);
  for (float y = -1e-3f; y < -1e-30f; y /= 1.01f) x.push_back(y);
  std::vector<float> y = x;
  w.exp2(y.data(), std::int64_t(y.size()));
  EXPECT_TRUE(std::isnan(y[6]));
  for (std::size_t i = 0; i < exact; ++i)
    if (!std::isnan(x[i])) {
      EXPECT_EQ(y[i], x[i] < -200 ? 0.f : std::exp2(x[i])) << x[i];
    }
  for (std::size_t i = exact; i < x.size(); ++i) {
    const double want = std::exp2(double(x[i]));
    ASSERT_LE(std::abs(double(y[i]) - want), 1.7e-7 * want) << x[i];
  }
}

TEST_F(Bfloat16, MultiplyIsThePlainSum) {
  for (const std::int64_t steps : {1, 2, 31, 64, 65, 200}) {
    const std::vector<std::uint16_t> k = numbers(w.key_tile * steps * 2);
    const std::vector<std::uint32_t> q = pairs(steps * w.strip);
    for (const int halves : {1, 2}) {
      std::vector<float> s(std::size_t(w.key_tile * w.strip), 1234.f);
      w.multiply(halves, s.data(), k.data(), q.data(), steps);
      for (std::int64_t j = 0; j < w.key_tile; ++j)
        for (std::int64_t r = 0; r < w.strip; ++r) {
          float want = 0;
          for (std::int64_t i = 0; i < steps; ++i) {
            const auto at = std::size_t(2 * (j * steps + i));
            want += dot(std::uint32_t(k[at + 1]) << 16 | k[at], q[std::size_t(i * w.strip + r)]);
          }
          if (r >= halves * w.strip / 2) want = 1234;
          ASSERT_EQ(s[std::size_t(j * w.strip + r)], want) << steps << ' ' << j << ' ' << r;
        }
    }
  }
}

TEST_F(Bfloat16, AccumulateScalesAndAdds) {
  for (const Bfloat16Words::Steps steps :
       {Bfloat16Words::Steps{0, 0}, {1, 0}, {1, 3}, {5, 1}, {48, 0}}) {
    const std::vector<std::uint32_t> p = pairs((steps.steps + steps.skipped) * w.strip);
    const std::vector<std::uint32_t> v = pairs(steps.steps * w.panel);
    std::vector<float> before(std::size_t(w.rows * w.panel)), alpha(std::size_t(w.rows));
    for (float& x : before) x = float(draws_.between(-9, 9));
    for (float& x : alpha) x = float(draws_.between(0, 3));
    std::vector<float> o = before;
    w.accumulate(o.data(), alpha.data(), p.data(), v.data(), steps);
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t c = 0; c < w.panel; ++c) {
        float want = alpha[std::size_t(r)] * before[std::size_t(r * w.panel + c)];
        for (std::int64_t j = 0; j < steps.steps; ++j)
          want += dot(p[std::size_t((j + steps.skipped) * w.strip + r)],
                      v[std::size_t(j * w.panel + c)]);
        ASSERT_EQ(o[std::size_t(r * w.panel + c)], want) << steps.steps << ' ' << r << ' ' << c;
      }
  }
}

// Exact powers of two: weights, sums and pairs have no rounding.
TEST_F(Bfloat16, WeighMakesPairsAndZeros) {
  for (const core::Range rows : {core::Range{0, 1}, {0, 2}, {0, 96}, {1, 2}, {1, 8}, {3, 95}}) {
    std::vector<float> s(std::size_t((rows.end + 1) * w.strip)), base(std::size_t(w.strip));
    for (float& x : s) x = draws_.between(0, 9) == 0 ? -kInfinity : float(draws_.between(-20, 0));
    for (float& x : base) x = float(draws_.between(0, 3));
    std::vector<float> after = s, sum(base.size());
    w.weigh(after.data(), rows, 2, base.data(), sum.data());
    for (std::size_t r = 0; r < base.size(); ++r) {
      float want_sum = 0;
      for (std::int64_t j = 0; j < (rows.end + 1) / 2 * 2; ++j) {
        const float score = s[std::size_t(j * w.strip) + r];
        const float want = rows.contains(j) ? std::exp2(2 * score - base[r]) : 0;
        std::uint32_t pair = 0;
        std::memcpy(&pair, &after[std::size_t(j / 2 * w.strip) + r], 4);
        ASSERT_EQ(j % 2 == 0 ? low(pair) : high(pair), want) << rows.begin << ' ' << j << ' ' << r;
        want_sum += want;
      }
      ASSERT_FLOAT_EQ(sum[r], want_sum);
    }
  }
}

// ---- Tiles ----

struct Product {
  alignas(64) std::uint16_t a[16][32], b[16][16][2];
  alignas(64) float c[16][16];
};

TEST_F(Bfloat16, ATileProductIsThePlainSum) {
  std::vector<decltype(w.multiply_tiles)> products{w.multiply_emulated};
  if (cpu::amx::granted()) products.push_back(w.multiply_tiles);
  for (const auto multiply : products) {
    Product x;
    for (auto& row : x.a)
      for (std::uint16_t& y : row) y = number();
    for (auto& row : x.b)
      for (auto& pair : row) pair[0] = number(), pair[1] = number();
    for (auto& row : x.c)
      for (float& y : row) y = float(draws_.between(-9, 9));
    Product got = x;
    multiply(&got.c[0][0], &got.a[0][0], &got.b[0][0][0]);
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        float want = x.c[m][n];
        for (int k = 0; k < 32; ++k)
          want += core::float_from_bfloat16(x.a[m][k]) *
                  core::float_from_bfloat16(x.b[k / 2][n][k % 2]);
        ASSERT_EQ(got.c[m][n], want) << m << ' ' << n;
      }
  }
}

class EmulatedAmx : public Bfloat16 {
 protected:
  void check(const Case& c) {
    const Inputs inputs(c);
    Outputs got(c);
    const core::Problem problem = problem_of(inputs, got);
    const plan::Device device{"amx", 16, 1, plan::Arithmetic::kTiles};
    plan::Plan plan = plan::make_plan(problem, plan::Backend::kCpu, device);
    plan.workers = 1;
    if (plan.arithmetic != plan::Arithmetic::kTiles) return;
    ++checked_;
    if (plan.tasks > 0) {
      Line<std::byte> memory(plan.workspace_bytes());
      std::fill_n(memory.get(), plan.workspace_bytes(), std::byte{0xff});  // NaN
      cpu::Call call(problem, plan, memory.get());
      call.tasks.reset(1, [&](int worker) { return call.schedule.share(worker, 1); });
      w.forward_emulated(call);
    }
    EXPECT_TRUE(agree(got, define(inputs), inputs, {"cpu/amx", 1, nullptr}));
  }

  int checked_ = 0;
};

TEST_F(EmulatedAmx, AgreesWithTheDefinition) {
  Dice dice(test_seed());
  for (int n = 0; n < 80 && !HasFailure(); ++n) {
    Case c = random_case(dice, {.work = 200'000});
    c.dtype = DType::kBfloat16;
    // As many as the planner gives to the tiles.
    c.queries = std::max<std::int64_t>(c.queries, 9);
    c.dim = std::max<std::int64_t>(c.dim, 16),
    c.value_dim = std::max<std::int64_t>(c.value_dim, 16);
    check(c);
  }
  EXPECT_GT(checked_, 40);
}

TEST_F(EmulatedAmx, AgreesAtTheEdgesOfTiles) {
  int tried = 0;
  for (const std::int64_t queries : {9, 16, 17, 33, 65})
    for (const std::int64_t keys : {1, 31, 33, 95, 97, 193})
      for (const std::int64_t dim : {17, 32, 33}) {
        Case c{.queries = queries, .keys = keys, .heads = 2, .kv_heads = 1, .dim = dim};
        c.value_dim = 64 + dim;
        c.dtype = DType::kBfloat16;
        c.left = keys / 2, c.right = 3, c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
        check(c);
        ASSERT_EQ(checked_, ++tried);
        if (HasFailure()) return;
      }
}

// ---- Gradients ----

struct Shape {
  std::int64_t queries, keys, heads, kv_heads, dim, value_dim;
};

Array normals(DType dtype, const Index4& shape, std::uint32_t stream) {
  Array a(dtype, shape);
  a.fill([&](const Index4& i) {
    return core::normal(test_seed(), stream, std::uint64_t(dense_index(shape, i)));
  });
  return a;
}

// One sequence, and its gradients in two types.
struct Gradients16 {
  Array q, k, v, d_out, out, lse;
  core::Problem problem;

  Gradients16(const Shape& s, bool causal)
      : q(normals(DType::kBfloat16, {1, s.queries, s.heads, s.dim}, 0)),
        k(normals(DType::kBfloat16, {1, s.keys, s.kv_heads, s.dim}, 1)),
        v(normals(DType::kBfloat16, {1, s.keys, s.kv_heads, s.value_dim}, 2)),
        d_out(normals(DType::kBfloat16, {1, s.queries, s.heads, s.value_dim}, 3)),
        out(DType::kBfloat16, d_out.shape()),
        lse(DType::kFloat32, {1, s.heads, s.queries, 1}) {
    problem.batch = 1;
    problem.heads = s.heads, problem.kv_heads = s.kv_heads;
    problem.queries = s.queries, problem.keys = s.keys;
    problem.dim = s.dim, problem.value_dim = s.value_dim;
    problem.scale = float(1 / std::sqrt(double(s.dim)));
    problem.q = q.tensor(), problem.k = k.tensor(), problem.v = v.tensor();
    problem.out = out.tensor(), problem.lse = lse.tensor();
    if (causal) problem.right = 0, problem.alignment = core::Alignment::kBottomRight;
    core::reference::forward(problem);
  }
  core::Gradients into(Array& dq, Array& dk, Array& dv) const {
    dq = Array(dq.dtype(), q.shape()), dk = Array(dk.dtype(), k.shape());
    dv = Array(dv.dtype(), v.shape());
    core::Gradients g;
    g.d_out = d_out.tensor();
    g.dq = dq.tensor(), g.dk = dk.tensor(), g.dv = dv.tensor();
    return g;
  }
};

struct Three {
  Array dq, dk, dv;
  explicit Three(DType dtype) : dq(dtype, {1, 1, 1, 1}), dk(dq), dv(dq) {}
};

TEST_F(Bfloat16, EmulatedGradientsOfAmxAgreeWithTheDefinition) {
  for (const Shape& s : {Shape{1, 40, 1, 1, 32, 32},
                         {33, 97, 2, 1, 64, 64},
                         {65, 31, 4, 2, 33, 5},
                         {200, 130, 2, 2, 96, 40},
                         {64, 1100, 1, 1, 16, 64}})
    for (const bool causal : {false, true}) {
      const Gradients16 x(s, causal);
      Three got(DType::kFloat32), want(DType::kFloat64);
      const core::Gradients g = x.into(got.dq, got.dk, got.dv);
      const plan::Device device{"amx", 16, 1, plan::Arithmetic::kTiles};
      const plan::Plan plan = plan::make_backward_plan(x.problem, g, plan::Backend::kCpu, device);
      ASSERT_EQ(plan.arithmetic, plan::Arithmetic::kTiles);
      ASSERT_EQ(plan.splits == 1, s.keys < 1024);
      Line<std::byte> memory(plan.workspace_bytes());
      std::fill_n(memory.get(), plan.workspace_bytes(), std::byte{0xff});  // NaN
      cpu::Call call(x.problem, plan, memory.get());
      call.gradients = &g;
      call.tasks.reset(1, [&](int worker) { return plan.tasks * worker; });
      w.backward_emulated(call);
      core::reference::backward(x.problem, x.into(want.dq, want.dk, want.dv));
      const double bound = core::bound_row(DType::kBfloat16).gradients;
      if (plan.splits == 1) {  // else another phase adds the parts
        EXPECT_LE(deviation(got.dq, want.dq).relative, bound) << s.queries;
      }
      EXPECT_LE(deviation(got.dk, want.dk).relative, bound) << s.queries;
      EXPECT_LE(deviation(got.dv, want.dv).relative, bound) << s.queries;
    }
}

}  // namespace
}  // namespace tessera::test
#endif
#endif
