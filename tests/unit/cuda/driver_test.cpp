#include "cuda/driver.hpp"

#include <gmock/gmock.h>

#include "core/error.hpp"
#include "unit/cuda/fake.hpp"

namespace tessera::test {
namespace {

using cuda::Driver;
using testing::HasSubstr;

class DriverTest : public WithFakeDriver {};

TEST_F(DriverTest, describes_its_gpus) {
  fake_cuda().gpus = {{.name = "First", .major = 9, .minor = 0, .multiprocessors = 132},
                      {.name = "Second", .major = 8, .minor = 6, .shared_bytes = 101376}};
  const Driver driver = open();
  ASSERT_TRUE(driver.usable()) << driver.why_not();
  EXPECT_EQ(driver.version(), 13000);
  ASSERT_EQ(driver.gpus().size(), 2u);
  EXPECT_EQ(driver.gpus()[0].name, "First");
  EXPECT_EQ(driver.gpus()[0].arch, 90);
  EXPECT_EQ(driver.gpus()[0].multiprocessors, 132);
  EXPECT_EQ(driver.gpus()[1].arch, 86);
  EXPECT_EQ(driver.gpus()[1].shared_bytes, 101376);
}

TEST_F(DriverTest, a_machine_without_a_driver_is_a_sentence) {
  const Driver driver = Driver::open("libno-such-driver.so.1");
  EXPECT_FALSE(driver.usable());
  EXPECT_THAT(driver.why_not(), HasSubstr("there is no NVIDIA driver here"));
  EXPECT_THAT(driver.why_not(), HasSubstr("libno-such-driver.so.1"));
  EXPECT_TRUE(driver.gpus().empty());
}

TEST_F(DriverTest, an_old_driver_is_a_sentence) {
  const Driver driver = Driver::open(OLD_DRIVER);
  EXPECT_THAT(driver.why_not(), HasSubstr("older than CUDA 12.0"));
}

TEST_F(DriverTest, a_machine_without_a_gpu_is_a_sentence) {
  fake_cuda().gpus.clear();
  EXPECT_THAT(open().why_not(), HasSubstr("finds no GPU"));
}

TEST_F(DriverTest, a_driver_that_does_not_start_is_a_sentence) {
  fake_cuda().fail["cuInit"] = 999;
  EXPECT_THAT(open().why_not(),
              HasSubstr("cuInit says CUDA_ERROR_FAKE (as the test wanted); look at nvidia-smi"));
}

TEST_F(DriverTest, each_entry_point_that_is_missing_is_named) {
  ASSERT_TRUE(open().usable());
  for (const char* name : {"cuInit", "cuLaunchKernelEx", "cuMemcpyDtoH", "cuKernelSetAttribute"}) {
    fake_cuda().reset();
    fake_cuda().hidden.insert(name);
    EXPECT_THAT(open().why_not(), HasSubstr("has no " + std::string(name) + " of CUDA 12.0"));
  }
}

TEST_F(DriverTest, whatever_fails_while_gpus_are_described_is_a_sentence) {
  for (const char* name : {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
                           "cuDeviceGetAttribute", "cuDeviceTotalMem"}) {
    fake_cuda().reset();
    fake_cuda().fail[name] = 700;
    const Driver driver = open();
    EXPECT_THAT(driver.why_not(), HasSubstr("does not describe its GPUs")) << name;
    EXPECT_TRUE(driver.gpus().empty());
  }
}

TEST_F(DriverTest, a_call_that_fails_says_where_and_why) {
  const Driver driver = open();
  const auto status_and_words = [&](cuda::Result result) {
    try {
      driver.check(result, "cuMemAlloc");
    } catch (const core::Error& e) {
      return std::pair(e.status(), std::string(e.what()));
    }
    return std::pair(core::Status::kOk, std::string());
  };
  EXPECT_EQ(status_and_words(0).first, core::Status::kOk);
  EXPECT_EQ(status_and_words(2).first, core::Status::kOutOfMemory);
  EXPECT_EQ(status_and_words(700).first, core::Status::kInternal);
  EXPECT_THAT(status_and_words(700).second, HasSubstr("CUDA_ERROR_FAKE"));
  EXPECT_THAT(status_and_words(700).second, HasSubstr("in cuMemAlloc"));
}

}  // namespace
}  // namespace tessera::test
