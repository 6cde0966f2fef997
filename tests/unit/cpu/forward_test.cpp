// Both schedules on every target against the definition. The laws try many more cases, through the
// C interface; here a failure names the kernel.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "support/random_case.hpp"
#include "unit/cpu/calls.hpp"
#include "unit/cpu/words.hpp"

namespace tessera::test {
namespace {

using plan::Backend::kCpu;
using plan::Backend::kStandard;

class Kernels : public OnEveryTarget {
 protected:
  // Both schedules, on one thread and on two.
  void check(const Inputs& inputs) {
    const Outputs definition = define(inputs);
    for (cpu::Engine* engine : {&one_, &two_}) {
      EXPECT_TRUE(agree(run(*engine, inputs), definition, inputs, named(*engine)));
      EXPECT_TRUE(
          agree(run(*engine, inputs, kStandard), definition, inputs, named(*engine, "standard/")));
    }
  }

  cpu::Engine one_{options_for(1, w.name)}, two_{options_for(2, w.name)};
};
INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(present_words()), target_name);

TEST_P(Kernels, AgreeWithTheDefinition) {
  Dice dice(test_seed());
  for (int n = 0; n < 60 && !HasFailure(); ++n) check(Inputs(random_case(dice, {.work = 200'000})));
}

// Rows and keys around each edge of a tile, where lanes and keys repeat or are left over.
TEST_P(Kernels, AgreeAtTheEdgesOfTiles) {
  for (const std::int64_t queries : {w.lanes, w.strip, 2 * w.strip})
    for (const std::int64_t more : {-1, 0, 1})
      for (const std::int64_t keys : {w.key_tile - 1, w.key_tile + 1, std::int64_t{95},
                                      std::int64_t{97}, std::int64_t{193}}) {
        Case c;
        c.queries = std::max<std::int64_t>(1, queries + more);
        c.keys = keys;
        c.heads = 2;
        c.dim = 5;
        c.value_dim = 32 + w.panel + more;  // wide enough for the norm that errors are measured by
        c.left = keys / 2, c.right = 3, c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
        check(Inputs(c));
        if (HasFailure()) return;
      }
}

// A head that lies far away gives more strips to a task, which changes nothing else.
TEST_P(Kernels, SameBitsHoweverManyStripsATaskHas) {
  Case c;
  c.queries = 5 * w.strip + 1, c.keys = 33'000;
  c.heads = 4, c.dim = c.value_dim = 8;
  c.right = 9, c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const Inputs inputs(c);
  const Outputs many(c), few(c);
  const auto compute = [&](const Outputs& to, std::int64_t threads, std::int64_t strips) {
    const core::Problem problem = problem_of(inputs, to);
    plan::Plan plan = plan::make_plan(problem, kCpu, {w.name, w.lanes, threads});
    EXPECT_EQ(plan.task_queries, strips * w.strip);
    plan.workers = 1;
    one_.run(problem, plan);
  };
  compute(many, 1, 8);
  compute(few, 1000, 2);
  EXPECT_TRUE(same_bits(many, few));
}

// ---- A visible NaN is never lost, whatever its bits ----

constexpr std::uint32_t kNaNs[] = {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0x7fffffffu,
                                   0xffffffffu, 0x7f800001u, 0x7fc00100u, 0xff8000ffu};

Case small_case() {
  Case c;
  c.queries = 9, c.keys = 130;
  c.dim = 8, c.value_dim = 6;
  return c;
}

void set_bits(const core::Tensor& t, const Index4& i, std::uint32_t bits) {
  std::memcpy(t.at(i[0], i[1], i[2], i[3]), &bits, sizeof bits);
}

TEST_P(Kernels, ANaNInAQueryStaysInItsRow) {
  for (const std::uint32_t bits : kNaNs) {
    const Inputs inputs(small_case());
    set_bits(inputs.q.tensor(), {0, 4, 0, 3}, bits);
    for (const plan::Backend backend : {kCpu, kStandard}) {
      const Outputs got = run(one_, inputs, backend);
      for (std::int64_t i = 0; i < 9; ++i) {
        EXPECT_EQ(std::isnan(got.out.at(0, i, 0, 2)), i == 4) << std::hex << bits << " row " << i;
        EXPECT_EQ(std::isnan(got.lse.at(0, 0, i)), i == 4) << std::hex << bits << " row " << i;
      }
    }
  }
}

TEST_P(Kernels, ANaNInAKeyReachesTheRowsThatSeeIt) {
  for (const std::uint32_t bits : kNaNs)
    for (const float softcap : {0.f, 5.f}) {
      Case c = small_case();
      c.softcap = softcap;
      c.left = 3, c.right = 0, c.align = TESSERA_ALIGN_TOP_LEFT;
      const Inputs inputs(c);
      set_bits(inputs.k.tensor(), {0, 2, 0, 7}, bits);
      for (const plan::Backend backend : {kCpu, kStandard}) {
        const Outputs got = run(one_, inputs, backend);
        for (std::int64_t i = 0; i < 9; ++i) {
          const bool sees = 2 <= i && i <= 5;
          EXPECT_EQ(std::isnan(got.out.at(0, i, 0, 0)), sees) << std::hex << bits << " row " << i;
          EXPECT_EQ(std::isnan(got.lse.at(0, 0, i)), sees) << std::hex << bits << " row " << i;
        }
      }
    }
}

TEST_P(Kernels, ANaNInABiasReachesItsRow) {
  for (const std::uint32_t bits : kNaNs) {
    Case c = small_case();
    c.bias = BiasKind::kNormal;
    const Inputs inputs(c);
    set_bits(inputs.bias.tensor(), {0, 0, 7, 100}, bits);
    const Outputs got = run(one_, inputs);
    for (std::int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(std::isnan(got.out.at(0, i, 0, 5)), i == 7) << std::hex << bits << " row " << i;
      EXPECT_EQ(std::isnan(got.lse.at(0, 0, i)), i == 7) << std::hex << bits << " row " << i;
    }
  }
}

}  // namespace
}  // namespace tessera::test
