// NVRTC compiles without a GPU. Where there is none, its refusal is tested; CI installs it.
#include "cuda/jit.hpp"

#include <gmock/gmock.h>

#include <cstdio>
#include <ctime>
#include <fstream>

#include "cuda/source.hpp"
#include "unit/cuda/calls.hpp"
#include "unit/cuda/fake.hpp"
#include "unit/cuda/folder.hpp"

namespace tessera::test {
namespace {

using cuda::Compiled;
using cuda::Nvrtc;
using testing::HasSubstr;

using enum device::Weighing;

constexpr core::DType kTypes[] = {core::DType::kFloat16, core::DType::kBfloat16};

// Compares what is said where there is no NVRTC.
bool absent() {
  if (Nvrtc::system().usable()) return false;
  EXPECT_THAT(Nvrtc::system().why_not(),
              HasSubstr("install it with pip install nvidia-cuda-nvrtc"));
  std::printf("NVRTC is not here: %s\n", Nvrtc::system().why_not().c_str());
  return true;
}

// Processor time of one kernel. The largest takes 2.2 s of a Zen 4 whose neighbours are quiet, and
// up to 1.7 times as much beside others. Sanitizers put their allocator under NVRTC
// too, with which it takes two to three times as long.
constexpr double kMostSeconds = 5 * SLOWED_BY;
// So the length of the code, which the time follows, is bounded more tightly. The longest has
// 189,480 bytes; with a second loop for values that are not finite it had 297,440.
constexpr std::size_t kMostBytes = 192 * 1024;

void expect_compiles(const plan::KernelKey& key, int arch) {
  const std::clock_t begin = std::clock();
  const Compiled compiled = Nvrtc::system().compile(cuda::entry_text(key), arch);
  const double took = double(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_EQ(compiled.why_not, "");
  EXPECT_EQ(compiled.cubin.substr(1, 3), "ELF");
  EXPECT_NE(compiled.cubin.find(plan::name_of(key)), compiled.cubin.npos);
  EXPECT_LT(compiled.cubin.size(), kMostBytes) << plan::name_of(key);
  EXPECT_LT(took, kMostSeconds) << "the first call of " << plan::name_of(key) << " waits for it";
  std::printf("%s for sm_%d: %.2f s, %zu bytes\n", plan::name_of(key).c_str(), arch, took,
              compiled.cubin.size());
}

// One of each head dimension, element type, weighing and generation, the largest among them; the
// slow test compiles them all.
TEST(Jit, compiles_kernels) {
  if (absent()) return;
  expect_compiles({device::Direction::kForward, 80, core::DType::kFloat16, 64, kBand}, 90);
  expect_compiles({device::Direction::kForward, 80, core::DType::kBfloat16, 256, kExact}, 80);
  expect_compiles({device::Direction::kForward, 80, core::DType::kBfloat16, 512, kRounded}, 90);
  expect_compiles({device::Direction::kForward, 80, core::DType::kFloat32, 128, kFloat32}, 90);
}

TEST(JitSlow, compiles_every_kernel) {
  if (absent()) return;
  for (const int arch : {80, 90})
    for (const core::DType dtype : kTypes)
      for (const int dim : {64, 128, 256}) {
        if (dim <= 128)
          expect_compiles({device::Direction::kForward, 80, dtype, dim, kPairs}, arch);
        expect_compiles({device::Direction::kForward, 80, dtype, dim, kBand}, arch);
        expect_compiles({device::Direction::kForward, 80, dtype, dim, kRounded}, arch);
        expect_compiles({device::Direction::kForward, 80, dtype, dim, kExact}, arch);
      }
}

// The third world of tests/emulator/compile_test.py, from the texts that the library holds.
TEST(Jit, each_header_compiles_alone) {
  if (absent()) return;
  int compiled = 0;
  for (const cuda::Header& header : cuda::headers()) {
    // Lists of registers, for <isa/wgmma.cuh>.
    if (header.name == "isa/wgmma_forms.cuh") continue;
    const std::string text = "#include <" + std::string(header.name) + ">\n";
    EXPECT_EQ(Nvrtc::system().compile(text, 90).why_not, "") << text;
    ++compiled;
  }
  EXPECT_GT(compiled, 40);
}

TEST(Jit, knows_for_which_architecture_to_compile) {
  if (absent()) return;
  EXPECT_EQ(Nvrtc::system().target_for(80), 80);
  EXPECT_EQ(Nvrtc::system().target_for(90), 90);
  EXPECT_EQ(Nvrtc::system().target_for(990), 0) << "of a generation to come";
  EXPECT_GE(Nvrtc::system().version(), 12000);
}

TEST(Jit, an_error_of_the_compiler_is_told) {
  if (absent()) return;
  const Compiled compiled = Nvrtc::system().compile("__global__ void f() { no such word; }", 80);
  EXPECT_EQ(compiled.cubin, "");
  EXPECT_THAT(compiled.why_not, HasSubstr("NVRTC does not compile it"));
  EXPECT_THAT(compiled.why_not, HasSubstr("kernel.cu(1)"));
}

TEST(Jit, a_machine_without_nvrtc_is_a_sentence) {
  const Nvrtc none = Nvrtc::open(std::vector<std::string>{"libno-nvrtc.so", "libno-other.so"});
  EXPECT_FALSE(none.usable());
  EXPECT_EQ(none.why_not(),
            "NVRTC was not found (not as libno-nvrtc.so nor in 1 other places); install it with "
            "pip install nvidia-cuda-nvrtc, or name its file in TESSERA_NVRTC");
}

TEST(Jit, a_library_that_is_no_nvrtc_is_a_sentence) {
  const Nvrtc other = Nvrtc::open(std::vector<std::string>{OLD_DRIVER});
  EXPECT_THAT(other.why_not(), HasSubstr("has no nvrtcVersion; it is no NVRTC"));
}

TEST(Jit, is_looked_for_in_python_packages_and_toolkits) {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  const fs::path packages = fs::path(folder.path()) / "lib/python3.9/site-packages/nvidia";
  const fs::path toolkit = fs::path(folder.path()) / "toolkit/lib64";
  for (const fs::path& place : {packages / "cu13/lib", packages / "cuda_nvrtc/lib", toolkit}) {
    fs::create_directories(place);
    std::ofstream(place / "libnvrtc.so.13") << "x";
  }
  unsetenv("TESSERA_NVRTC");
  setenv("VIRTUAL_ENV", folder.path().c_str(), 1);
  setenv("CUDA_HOME", (folder.path() + "/toolkit").c_str(), 1);
  const std::vector<std::string> list = cuda::nvrtc_search_list();
  EXPECT_EQ(list.front(), "libnvrtc.so.13");
  for (const fs::path& place : {packages / "cu13/lib", packages / "cuda_nvrtc/lib", toolkit})
    EXPECT_THAT(list, testing::Contains((place / "libnvrtc.so.13").string()));
  setenv("TESSERA_NVRTC", "/some/file", 1);
  EXPECT_THAT(cuda::nvrtc_search_list(), testing::ElementsAre("/some/file"));
  for (const char* name : {"VIRTUAL_ENV", "CUDA_HOME", "TESSERA_NVRTC"}) unsetenv(name);
}

}  // namespace
}  // namespace tessera::test
