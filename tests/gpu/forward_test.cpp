// The forward pass on a real GPU, against the definition. Without one every test says so and is
// skipped: nothing has been shown then.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "api/convert.hpp"
#include "core/error.hpp"
#include "cuda/engine.hpp"
#include "support/compare.hpp"
#include "support/gpu.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

constexpr DType kTypes[] = {DType::kFloat16, DType::kBfloat16};

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << why_no_gpu();
  }
  static Backend on() { return backend("cuda"); }
};
class GpuForward : public Gpu {};
class GpuForwardSlow : public Gpu {};
class GpuModules : public Gpu {};

void expect_right(const Case& c) {
  const Inputs in(c);
  const Backend cuda = backend("cuda");
  EXPECT_TRUE(agree(run(cuda, in), define(in), in, cuda));
}

// Every other one for the fast kernels.
Case any_case(Dice& dice, std::int64_t work) {
  Case c = random_call(dice, {.work = work});
  c.dtype = dice.pick(kTypes);
  return dice.one_in(2) ? aligned(c) : c;
}

void compare_cases(int count, std::int64_t work) {
  Dice dice(test_seed());
  int compared = 0;
  for (int n = 0; n < count && !testing::Test::HasFailure(); ++n) {
    const Case c = any_case(dice, work);
    if (!backend("cuda").does(c)) continue;
    expect_right(c);
    ++compared;
  }
  EXPECT_GT(compared, count / 2);
  std::printf("%d random cases on %s\n", compared, cuda::Engine::system().gpu(0).name.c_str());
}

TEST_F(GpuForward, any_case_agrees_with_the_definition) { compare_cases(300, 400'000); }
TEST_F(GpuForwardSlow, any_case_agrees_with_the_definition) { compare_cases(3000, 2'000'000); }

TEST_F(GpuForward, long_rows_of_every_head_dimension) {
  for (const DType dtype : kTypes)
    for (const std::int64_t dim : {64, 96, 128, 256}) {
      Case c{.queries = 300, .keys = 2000, .heads = 2, .kv_heads = 1, .dim = dim, .value_dim = dim};
      c.dtype = dtype;
      expect_right(c);
      c.right = 0;
      c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
      expect_right(c);
    }
}

TEST_F(GpuForward, thirty_runs_give_the_same_bits) {
  Case c{.batch = 2, .queries = 130, .keys = 1500, .heads = 4, .dim = 72, .value_dim = 40};
  c.kv_heads = 2;
  c.dtype = DType::kBfloat16;
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const Inputs in(c);
  const Outputs first = run(on(), in);
  for (int n = 0; n < 30; ++n) EXPECT_TRUE(same_bits(run(on(), in), first));
}

TEST_F(GpuForward, memory_that_no_row_sees_does_not_exist) {
  Dice dice(test_seed() + 2);
  for (int n = 0; n < 100 && !HasFailure(); ++n) {
    const Case c = any_case(dice, 100'000);
    if (!on().does(c)) continue;
    const Inputs plain(c);
    EXPECT_TRUE(same_bits(run(on(), plain.with_unseen_memory_poisoned()), run(on(), plain)))
        << on().command(c);
  }
}

TEST_F(GpuForward, many_threads_at_once) {
  Case c{.queries = 200, .keys = 300, .heads = 4, .kv_heads = 4, .dim = 64, .value_dim = 64};
  c.dtype = DType::kFloat16;
  const Inputs in(c);
  const Outputs right = run(on(), in);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n) EXPECT_TRUE(same_bits(run(on(), in), right));
    });
  for (std::thread& thread : threads) thread.join();
}

// The call on an engine of its own, whose kernels come from where the test says.
Outputs run_from(cuda::Engine& engine, const Inputs& in, cuda::Origin* origin) {
  Outputs outputs(in.of);
  outputs.out.poison();
  outputs.lse.poison();
  outputs.status = on_gpu(describe(in, outputs), [&](const tessera_attention_desc& desc) {
    const api::Call call = api::convert(desc, api::Purpose::kRun);
    const plan::GpuPlan plan = plan::make_gpu_plan(call.problem, engine.gpu(0));
    *origin = engine.run(call.problem, plan, 0, nullptr);
    return TESSERA_OK;
  });
  return outputs;
}

TEST_F(GpuModules, kernels_from_everywhere_give_right_answers) {
  Case c{.queries = 200, .keys = 300, .heads = 2, .kv_heads = 1, .dim = 128, .value_dim = 128};
  c.dtype = DType::kBfloat16;
  const Inputs in(c);
  std::vector<cuda::Image> ahead, ptx;
  for (const cuda::Image& image : cuda::images()) (image.ptx ? ptx : ahead).push_back(image);
  std::vector<cuda::Sources> sources{{ahead, nullptr, {}}, {ptx, nullptr, {}}};
  if (cuda::Nvrtc::system().usable()) sources.push_back({{}, nullptr, &cuda::Nvrtc::system});
  std::printf("NVRTC: %s\n", cuda::Nvrtc::system().usable()
                                 ? cuda::Nvrtc::system().path().c_str()
                                 : cuda::Nvrtc::system().why_not().c_str());
  for (const cuda::Sources& source : sources) {
    cuda::Engine engine(cuda::Driver::system(), source);
    const auto begin = std::chrono::steady_clock::now();
    cuda::Origin origin{};
    try {
      const Outputs got = run_from(engine, in, &origin);
      EXPECT_TRUE(agree(got, define(in), in, on()));
    } catch (const core::Error& e) {
      ADD_FAILURE() << e.what();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("first call with code from %s: %.3f s\n", cuda::name_of(origin), took.count());
  }
}

}  // namespace
}  // namespace tessera::test
