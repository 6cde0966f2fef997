#include "cuda/module.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "core/error.hpp"
#include "unit/cuda/calls.hpp"
#include "unit/cuda/fake.hpp"
#include "unit/cuda/folder.hpp"

namespace tessera::test {
namespace {

using cuda::Image;
using cuda::Loaded;
using cuda::Modules;
using cuda::Nvrtc;
using cuda::Origin;
using testing::HasSubstr;

constexpr std::string_view kBytes =
    "0123456789012345678901234567890123456789012345678901234567890123";

// An NVRTC that is not there.
const Nvrtc& no_nvrtc() {
  static const Nvrtc none = Nvrtc::open(std::vector<std::string>{"libno-nvrtc.so"});
  return none;
}

class ModuleTest : public WithFakeDriver {
 protected:
  const cuda::Driver driver_ = open();
  const plan::Gpu gpu_ = hopper();

  Loaded find(Modules& modules, const plan::Gpu& gpu, std::uintptr_t context = 0x1000) {
    return modules.find(plan::make_gpu_plan(small_problem(), gpu),
                        {gpu, 0, reinterpret_cast<cuda::ContextHandle>(context)});
  }
  std::string why_not(Modules& modules, const plan::Gpu& gpu) {
    try {
      find(modules, gpu);
    } catch (const core::Error& e) {
      EXPECT_EQ(e.status(), core::Status::kUnsupported);
      return e.what();
    }
    return "";
  }
  static Image image(int arch, bool ptx = false) {
    return {"forward_sm80_bfloat16_d128_band", arch, ptx, kBytes};
  }
};

TEST_F(ModuleTest, code_of_the_same_generation_is_taken_the_newest_first) {
  struct Row {
    int arch;
    std::vector<Image> images;
    int loaded;
    Origin origin;
  };
  const std::vector<Image> all{image(80), image(90), image(80, true)};
  const std::vector<Image> many{image(80), image(86), image(89), image(80, true)};
  for (const Row& row : {Row{90, all, 1, Origin::kEmbedded}, Row{80, all, 1, Origin::kEmbedded},
                         Row{86, many, 1, Origin::kEmbedded}, Row{100, all, 1, Origin::kPtx},
                         Row{120, all, 1, Origin::kPtx}}) {
    fake_cuda().reset();
    Modules modules(driver_, {row.images, nullptr, no_nvrtc});
    plan::Gpu gpu = gpu_;
    gpu.arch = row.arch;
    EXPECT_EQ(int(find(modules, gpu).origin), int(row.origin)) << row.arch;
    EXPECT_EQ(int(fake_cuda().images.size()), row.loaded) << row.arch;
  }
}

TEST_F(ModuleTest, a_kernel_is_loaded_once_for_all_contexts_and_threads) {
  const std::vector<Image> images{image(90)};
  Modules modules(driver_, {images, nullptr, no_nvrtc});
  const Loaded first = find(modules, gpu_);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(find(modules, gpu_).kernel, first.kernel);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(find(modules, gpu_, 0x2000).kernel, first.kernel);
  EXPECT_EQ(fake_cuda().calls["cuLibraryLoadData"], 1);
  EXPECT_EQ(fake_cuda().calls["cuKernelGetFunction"], 2) << "loaded into each context at once";
}

TEST_F(ModuleTest, the_kernel_may_use_the_shared_memory_of_its_plan) {
  const std::vector<Image> images{image(90)};
  Modules modules(driver_, {images, nullptr, no_nvrtc});
  find(modules, gpu_);
  EXPECT_EQ(fake_cuda().shared_of[0], 66048);
}

TEST_F(ModuleTest, code_that_the_driver_refuses_is_passed_over) {
  const std::vector<Image> images{image(90), image(80, true)};
  Modules modules(driver_, {images, nullptr, no_nvrtc});
  fake_cuda().fail["cuLibraryLoadData"] = 209;
  fake_cuda().fail_times["cuLibraryLoadData"] = 1;
  EXPECT_EQ(int(find(modules, gpu_).origin), int(Origin::kPtx));
}

TEST_F(ModuleTest, what_stood_in_the_way_is_told) {
  Modules nothing(driver_, {{}, nullptr, no_nvrtc});
  const std::string why = why_not(nothing, gpu_);
  EXPECT_THAT(why, HasSubstr("no code of forward_sm80_bfloat16_d128_band for Fake GPU (compute "
                             "capability 9.0)"));
  EXPECT_THAT(why, HasSubstr("pip install nvidia-cuda-nvrtc"));
  EXPECT_THAT(why, HasSubstr("built without nvcc"));

  const std::vector<Image> images{image(90), image(80, true)};
  for (const char* name : {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelSetAttribute"}) {
    fake_cuda().reset();
    fake_cuda().fail[name] = 218;
    Modules modules(driver_, {images, nullptr, no_nvrtc});
    EXPECT_THAT(why_not(modules, gpu_), HasSubstr("the driver does not load the code from PTX"))
        << name;
    fake_cuda().fail.clear();  // and a later call may do better
    EXPECT_EQ(int(find(modules, gpu_).origin), int(Origin::kEmbedded));
  }
}

TEST_F(ModuleTest, what_nvrtc_compiled_comes_from_the_disk_the_next_time) {
  if (!Nvrtc::system().usable()) {
    Modules modules(driver_, {{}, nullptr, Nvrtc::system});
    EXPECT_THAT(why_not(modules, gpu_), HasSubstr("NVRTC was not found"));
    return;
  }
  const TemporaryFolder folder;
  const cuda::Cache cache(folder.path() + "/kernels");
  for (const Origin origin : {Origin::kNvrtc, Origin::kCache}) {
    Modules modules(driver_, {{}, &cache, Nvrtc::system});
    EXPECT_EQ(int(find(modules, gpu_).origin), int(origin));
    EXPECT_EQ(fake_cuda().images.back().substr(1, 3), "ELF");
  }
  EXPECT_EQ(cache.entries().size(), 1u);
}

TEST_F(ModuleTest, the_library_holds_what_its_build_compiled) {
  for (const Image& image : cuda::images()) {
    EXPECT_EQ(image.kernel.substr(0, 13), "forward_sm80_");
    EXPECT_NE(image.bytes.find(image.kernel), image.bytes.npos) << "an entry of that name";
    EXPECT_EQ(image.bytes.substr(1, 3) == "ELF", !image.ptx);
    EXPECT_EQ(image.bytes.find(".target sm_80") != image.bytes.npos, image.ptx);
  }
}

}  // namespace
}  // namespace tessera::test
