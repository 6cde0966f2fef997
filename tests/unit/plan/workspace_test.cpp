// What the plan says of workspace is what the kernels use: not a byte more, and no line less.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "support/random_case.hpp"
#include "unit/cpu/calls.hpp"

namespace tessera::test {
namespace {

using plan::Backend;
using plan::Packing;
using plan::Plan;

constexpr std::byte kCanary{0xC5};
constexpr std::int64_t kLine = 64, kGuard = 64 * kLine;

// Exactly so many bytes on lines of 64, between canaries. AddressSanitizer guards the ends of a
// second block, which has none.
class Guarded {
 public:
  explicit Guarded(std::int64_t bytes)
      : bytes_(bytes), all_(allocate(bytes + 2 * kGuard)), bare_(allocate(bytes)) {
    std::memset(all_.get(), int(kCanary), std::size_t(bytes + 2 * kGuard));
    std::memset(bare_.get(), int(kCanary), std::size_t(bytes));
  }

  std::byte* memory() { return all_.get() + kGuard; }
  std::byte* bare() { return bare_.get(); }

  bool intact() const {
    const auto alive = [](std::byte b) { return b == kCanary; };
    const std::byte* end = all_.get() + kGuard + bytes_;
    return std::all_of(all_.get(), all_.get() + kGuard, alive) &&
           std::all_of(end, end + kGuard, alive);
  }
  // The bytes of [begin, end) up to the last that was written to.
  std::int64_t touched(std::int64_t begin, std::int64_t end) const {
    while (end > begin && all_.get()[kGuard + end - 1] == kCanary) --end;
    return end - begin;
  }

 private:
  struct Release {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(kLine)); }
  };
  using Memory = std::unique_ptr<std::byte, Release>;
  static Memory allocate(std::int64_t bytes) {
    return Memory(
        static_cast<std::byte*>(::operator new(std::size_t(bytes), std::align_val_t(kLine))));
  }

  std::int64_t bytes_;
  Memory all_, bare_;
};

// Whoever packs writes down whose each copy is, at the very end of its bytes; the decode kernel
// copies rows to the place that their number within a block says.
void expect_used_to_the_end(const Guarded& workspace, const Plan& plan) {
  if (plan.kernel == plan::Kernel::kDecode) return;
  for (std::int64_t w = 0; w < plan.workers && plan.packing != Packing::kNone; ++w) {
    const std::int64_t begin = plan.shared_bytes + w * plan.worker_bytes;
    EXPECT_GT(workspace.touched(begin, begin + plan.worker_bytes), plan.worker_bytes - kLine)
        << "worker " << w;
  }
}

void check(cpu::Engine& engine, const Inputs& inputs, Backend backend) {
  const Outputs right = run(engine, inputs, backend);
  Outputs outputs(inputs.of), again(inputs.of);
  const core::Problem problem = problem_of(inputs, outputs);
  const Plan plan = plan::make_plan(problem, backend, engine.device());
  Guarded workspace(plan.workspace_bytes());
  engine.run(problem, plan, workspace.memory());
  engine.run(problem_of(inputs, again), plan, workspace.bare());
  EXPECT_TRUE(workspace.intact()) << "bytes outside of the workspace were written";
  EXPECT_TRUE(same_bits(outputs, right)) << "what the workspace held before has an effect";
  EXPECT_TRUE(same_bits(again, right));
  if (plan.tasks > 0 && plan.longest_keys > 0) expect_used_to_the_end(workspace, plan);
}

class Workspace : public testing::TestWithParam<std::string_view> {
 protected:
  void check_both(const Inputs& inputs) {
    const bool comparable = test::backend("standard/" + std::string(best_target())).does(inputs.of);
    for (const Backend backend : {Backend::kCpu, Backend::kStandard}) {
      if (backend == Backend::kStandard && !comparable) continue;
      check(one_, inputs, backend);
      check(three_, inputs, backend);
    }
    if (HasFailure()) ADD_FAILURE() << named(one_).command(inputs.of);
  }

  cpu::Engine one_{options_for(1, GetParam())}, three_{options_for(3, GetParam())};
};

std::vector<std::string_view> present_targets() {
  std::vector<std::string_view> names;
  for (const cpu::TargetInfo& target : cpu::targets())
    if (target.present) names.push_back(target.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Targets, Workspace, testing::ValuesIn(present_targets()),
                         [](const auto& target) { return std::string(target.param); });

TEST_P(Workspace, IsExactlyWhatAnyCaseUses) {
  Dice dice(test_seed());
  for (int n = 0; n < 120 && !HasFailure(); ++n)
    check_both(Inputs(random_call(dice, {.work = 100'000})));
}

TEST_P(Workspace, IsExactlyWhatThreeWorkersUse) {
  Dice dice(test_seed() + 1);
  for (int n = 0; n < 4 && !HasFailure(); ++n)
    check_both(Inputs(random_call(dice, {.work = 7'000'000, .least_work = 4'500'000})));
}

// Sizes one off whatever the kernels count in: vectors, panels, tiles, blocks.
TEST_P(Workspace, IsExactlyWhatOddSizesUse) {
  for (const std::int64_t dim : {1, 3, 31, 33})
    for (const std::int64_t value_dim : {1, 7, 32, 65})
      for (const std::int64_t keys : {1, 95, 97, 193}) {
        Case c;
        c.dtype = (dim + keys) % 4 == 0 ? DType::kFloat16 : DType::kFloat32;
        c.queries = 1 + (dim + value_dim) % 67;
        c.keys = keys;
        c.dim = dim, c.value_dim = value_dim;
        c.bias = keys % 2 == 0 ? BiasKind::kNone : BiasKind::kHoles;
        check_both(Inputs(c));
        if (HasFailure()) return;
      }
}

// Keys and values of more than 2 MiB: eight strips a task.
TEST_P(Workspace, IsExactlyWhatAFarHeadUses) {
  Case c;
  c.queries = 16 * one_.device().lanes + 1, c.keys = 1100;
  c.heads = 4, c.dim = c.value_dim = 240;
  c.dtype = DType::kBfloat16;
  c.left = 40, c.right = 40, c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const Inputs inputs(c);
  const Outputs outputs(c);
  const Plan plan = plan::make_plan(problem_of(inputs, outputs), Backend::kCpu, one_.device());
  EXPECT_EQ(plan.task_queries, 16 * one_.device().lanes);
  check(one_, inputs, Backend::kCpu);
}

// The careful path has a row of doubles.
TEST_P(Workspace, IsExactlyWhatTheCarefulPathUses) {
  for (const std::int64_t value_dim : {1, 5, 33, 64}) {
    Case c;
    c.queries = 35, c.keys = 100;
    c.dim = 1, c.value_dim = value_dim;
    Inputs inputs(c);
    inputs.v.fill([](const Index4& i) { return i[1] == 50 ? INFINITY : 1.; });
    check_both(inputs);
  }
}

// Without copies the last that a worker writes is a row, or the bias.
TEST_P(Workspace, HasNoSlackWithoutCopies) {
  const std::int64_t lanes = one_.device().lanes;
  for (const BiasKind bias : {BiasKind::kNone, BiasKind::kNormal}) {
    Case c;
    c.queries = 4 * lanes, c.keys = 96;
    c.dim = 8 * lanes, c.value_dim = 2 * lanes;
    c.bias = bias;
    const Inputs inputs(c);
    Outputs outputs(c);
    const core::Problem problem = problem_of(inputs, outputs);
    const Plan plan = plan::make_plan(problem, Backend::kCpu, one_.device());
    ASSERT_EQ(plan.packing, Packing::kNone);
    Guarded workspace(plan.workspace_bytes());
    one_.run(problem, plan, workspace.memory());
    EXPECT_GT(workspace.touched(0, plan.worker_bytes), plan.worker_bytes - kLine);
  }
}

}  // namespace
}  // namespace tessera::test
