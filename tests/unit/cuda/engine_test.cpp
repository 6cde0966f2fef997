// From a problem to what the driver is told.
#include "cuda/engine.hpp"

#include <gmock/gmock.h>

#include <cstring>

#include "core/error.hpp"
#include "plan/params.hpp"
#include "unit/cuda/calls.hpp"
#include "unit/cuda/fake.hpp"

namespace tessera::test {
namespace {

using cuda::Engine;
using cuda::Image;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kCode(64, 'x');
const std::vector<Image> kImages{{"forward_sm80_bfloat16_d128_band", 90, false, kCode}};

class EngineTest : public WithFakeDriver {
 protected:
  EngineTest() { fake_cuda().gpus.resize(2); }

  cuda::Driver driver_ = two_gpus();
  Engine engine_{driver_, {kImages, nullptr, {}}};
  core::Problem problem_ = small_problem();
  plan::GpuPlan plan_ = plan::make_gpu_plan(problem_, hopper());

  static cuda::Driver two_gpus() {
    fake_cuda().gpus.resize(2);
    return open();
  }
  static const fake::Launch& last() { return fake_cuda().launches.back(); }
};

TEST_F(EngineTest, a_launch_is_what_the_plan_says) {
  int stream = 0;
  engine_.run(problem_, plan_, 0, &stream);
  ASSERT_EQ(fake_cuda().launches.size(), 1u);
  EXPECT_EQ(last().kernel, "forward_sm80_bfloat16_d128_band");
  EXPECT_THAT(last().grid, ElementsAre(1, 4, 2));
  EXPECT_THAT(last().block, ElementsAre(128, 1, 1));
  EXPECT_EQ(last().shared_bytes, 66048u);
  EXPECT_EQ(last().stream, &stream);
  EXPECT_EQ(last().params.q.data, problem_.q.data);
  EXPECT_EQ(last().params.heads, 4);
  EXPECT_EQ(last().params.group, 2);
  EXPECT_EQ(last().params.lengths.keys, 150);
}

TEST_F(EngineTest, a_call_without_rows_launches_nothing) {
  problem_.queries = 0;
  engine_.run(problem_, plan::make_gpu_plan(problem_, hopper()), 0, nullptr);
  EXPECT_TRUE(fake_cuda().launches.empty());
}

TEST_F(EngineTest, the_context_of_the_caller_is_used_and_left_as_it_was) {
  const cuda::ContextHandle own = reinterpret_cast<cuda::ContextHandle>(0x7001);  // of device 1
  driver_->CtxPushCurrent(own);
  engine_.run(problem_, plan_, 1, nullptr);
  EXPECT_EQ(last().context, own);
  engine_.run(problem_, plan_, 0, nullptr);
  EXPECT_EQ(last().context, reinterpret_cast<void*>(0x1000)) << "the primary one of device 0";
  cuda::ContextHandle now = nullptr;
  driver_->CtxGetCurrent(&now);
  EXPECT_EQ(now, own);
  driver_->CtxPopCurrent(&now);
}

TEST_F(EngineTest, a_primary_context_is_retained_once) {
  for (int n = 0; n < 3; ++n) engine_.run(problem_, plan_, 0, nullptr);
  EXPECT_EQ(fake_cuda().calls["cuDevicePrimaryCtxRetain"], 1);
}

TEST_F(EngineTest, nothing_is_allocated_or_waited_for) {
  for (int n = 0; n < 3; ++n) engine_.run(problem_, plan_, 0, nullptr);
  for (const char* name : {"cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuStreamSynchronize"})
    EXPECT_EQ(fake_cuda().calls[name], 0) << name;
  EXPECT_EQ(fake_cuda().calls["cuLaunchKernelEx"], 3);
}

TEST_F(EngineTest, each_failure_of_the_driver_is_an_error_that_names_it) {
  for (const char* name : {"cuCtxGetCurrent", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent",
                           "cuKernelGetFunction", "cuLaunchKernelEx"}) {
    Engine engine{driver_, {kImages, nullptr, {}}};
    fake_cuda().fail = {{name, 700}};
    try {
      engine.run(problem_, plan_, 0, nullptr);
      ADD_FAILURE() << name;
    } catch (const core::Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(std::string("in ") + name));
    }
    fake_cuda().fail.clear();
    engine.run(problem_, plan_, 0, nullptr);
  }
}

TEST_F(EngineTest, a_gpu_that_is_not_there_is_refused) {
  const auto why_not = [](const Engine& engine, int ordinal) {
    try {
      engine.gpu(ordinal);
    } catch (const core::Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(why_not(engine_, 2), HasSubstr("device_id is 2, but there are 2 GPUs here"));
  EXPECT_THAT(why_not(engine_, -1), HasSubstr("device_id is -1"));
  const cuda::Driver none = cuda::Driver::open("libno-such-driver.so.1");
  EXPECT_THAT(why_not(Engine(none, {}), 0), HasSubstr("there is no NVIDIA driver here"));
}

}  // namespace
}  // namespace tessera::test
