// What the first call of a kernel costs by where its code comes from, as a line of JSON each:
// opening NVRTC, compiling, loading from the disk cache, what was compiled ahead and PTX. With the
// driver of the tests, which does nothing, it is our part alone; no GPU is needed then.
//
//   LD_LIBRARY_PATH=build/release/tests/fake chrt -f 5 build/release/bin/bench_gpu_first_call
//   bench_gpu_first_call bfloat16_d128   the kernels with this in their name
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "cuda/engine.hpp"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;
using device::Weighing;

constexpr int kSamples = 5;  // of what takes milliseconds

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<plan::KernelKey> all_kernels() {
  std::vector<plan::KernelKey> all;
  const auto add = [&](core::DType dtype, Weighing weighing, std::initializer_list<int> dims) {
    for (const int dim : dims)
      all.push_back({device::Direction::kForward, 80, dtype, dim, weighing});
  };
  for (const core::DType dtype : {core::DType::kFloat16, core::DType::kBfloat16}) {
    add(dtype, Weighing::kBand, {64, 128, 256});
    add(dtype, Weighing::kPairs, {64, 128});
    add(dtype, Weighing::kRounded, {64, 128, 256, 512});
    add(dtype, Weighing::kExact, {64, 128, 256, 512});
  }
  add(core::DType::kFloat32, Weighing::kFloat32, {64, 128, 256, 512});
  return all;
}

std::vector<cuda::Image> images_of(bool ptx) {
  std::vector<cuda::Image> some;
  for (const cuda::Image& image : cuda::images())
    if (image.ptx == ptx) some.push_back(image);
  return some;
}

const cuda::Nvrtc& no_nvrtc() {
  static const cuda::Nvrtc none = cuda::Nvrtc::open({});
  return none;
}

class FirstCalls {
 public:
  FirstCalls(const cuda::Driver& driver, const std::string& folder)
      : driver_(driver), engine_(driver, {}), here_(engine_, 0), cache_(folder) {}

  void measure(const plan::KernelKey& key) const {
    cache_.clear();
    print(key, cuda::Origin::kNvrtc, {{}, &cache_, cuda::Nvrtc::system}, 1);
    print(key, cuda::Origin::kCache, {{}, &cache_, cuda::Nvrtc::system}, kSamples);
    for (const bool ptx : {false, true}) {
      const std::vector<cuda::Image> images = images_of(ptx);
      const cuda::Origin origin = ptx ? cuda::Origin::kPtx : cuda::Origin::kEmbedded;
      print(key, origin, {images, nullptr, no_nvrtc}, kSamples);
    }
  }

 private:
  // Nothing where the code does not come from there.
  void print(const plan::KernelKey& key, cuda::Origin origin, const cuda::Sources& sources,
             int samples) const {
    const plan::Gpu& gpu = driver_.gpus().front();
    plan::GpuPlan plan;
    plan.kernel = key;
    std::vector<double> took;
    try {
      for (int n = 0; n < samples; ++n) {
        cuda::Modules modules(driver_, sources);  // which knows nothing yet
        const Clock::time_point begin = Clock::now();
        if (modules.find(plan, {gpu, 0, here_.context()}).origin != origin) return;
        took.push_back(milliseconds_since(begin));
      }
    } catch (const core::Error&) {
      return;
    }
    std::sort(took.begin(), took.end());
    std::printf(R"({"case": "%s", "from": "%s", "device": "%s", "arch": %d, "ms_p50": %.3f})"
                "\n",
                plan::name_of(key).c_str(), name_of(origin), gpu.name.c_str(), gpu.arch,
                took[took.size() / 2]);
    std::fflush(stdout);
  }

  const cuda::Driver& driver_;
  cuda::Engine engine_;
  cuda::Engine::Here here_;
  cuda::Cache cache_;
};

}  // namespace

int main(int count, char** words) {
  const Clock::time_point begin = Clock::now();
  const cuda::Nvrtc& nvrtc = cuda::Nvrtc::system();
  std::printf(R"({"case": "opening NVRTC", "version": %d, "ms_p50": %.3f})"
              "\n",
              nvrtc.version(), milliseconds_since(begin));
  const cuda::Driver& driver = cuda::Driver::system();
  for (const std::string& why_not : {driver.why_not(), nvrtc.why_not()})
    if (!why_not.empty()) {
      std::fprintf(stderr, "%s\n", why_not.c_str());
      return 1;
    }
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  {
    const FirstCalls calls(driver, folder);
    for (const plan::KernelKey& key : all_kernels())
      if (count < 2 || plan::name_of(key).find(words[1]) != std::string::npos) calls.measure(key);
  }
  std::filesystem::remove_all(folder);
}
