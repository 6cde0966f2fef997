#include "support/gpu.hpp"

#ifdef TESSERA_HAS_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "api/fields.hpp"
#include "core/error.hpp"
#include "cuda/engine.hpp"
#endif

namespace tessera::test {

#ifdef TESSERA_HAS_CUDA

namespace {

constexpr std::size_t kGuard = 512;  // bytes of poison on each side
constexpr std::uint64_t kAlignment = 256;
constexpr std::byte kPoison{0x7f};  // 0x7f7f is a NaN of 16 bits, 0x7f7f7f7f a huge float32

cuda::Engine& engine() { return cuda::Engine::system(); }

// A tensor of the host and its copy on the GPU.
class Mirror {
 public:
  explicit Mirror(const tessera_tensor& t) {
    const std::int64_t size = t.dtype >> 11;  // bits << 8
    std::int64_t low = 0, high = 0;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t reach = (t.shape[i] - 1) * t.stride[i];
      (reach < 0 ? low : high) += reach;
    }
    host_ = static_cast<std::byte*>(t.data) + low * size;
    bytes_ = std::size_t((high - low + 1) * size);
    skipped_ = kGuard + reinterpret_cast<std::uintptr_t>(host_) % kAlignment;
    all_.assign(skipped_ + bytes_ + kGuard, kPoison);
    std::memcpy(all_.data() + skipped_, host_, bytes_);
    const cuda::Driver& driver = engine().driver();
    driver.check(driver->MemAlloc(&memory_, all_.size()), "cuMemAlloc");
    driver.check(driver->MemcpyHtoD(memory_, all_.data(), all_.size()), "cuMemcpyHtoD");
    place_ = reinterpret_cast<std::byte*>(memory_ + skipped_) - low * size;
  }
  ~Mirror() { engine().driver()->MemFree(memory_); }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  void* place() const { return place_; }  // of element [0, 0, 0, 0] on the GPU

  // What the GPU holds now; whether the poison beside it is as it was.
  bool fetch() {
    const cuda::Driver& driver = engine().driver();
    driver.check(driver->MemcpyDtoH(all_.data(), memory_, all_.size()), "cuMemcpyDtoH");
    std::memcpy(host_, all_.data() + skipped_, bytes_);
    const auto is_poison = [](std::byte x) { return x == kPoison; };
    return std::all_of(all_.begin(), all_.begin() + std::ptrdiff_t(skipped_), is_poison) &&
           std::all_of(all_.end() - std::ptrdiff_t(kGuard), all_.end(), is_poison);
  }

 private:
  std::byte* host_ = nullptr;
  std::size_t bytes_ = 0, skipped_ = 0;
  std::vector<std::byte> all_;
  cuda::Address memory_ = 0;
  std::byte* place_ = nullptr;
};

bool empty(const tessera_tensor& t) {
  return std::any_of(t.shape, t.shape + 4, [](std::int64_t size) { return size <= 0; });
}

tessera_status call_there(tessera_attention_desc& desc, const GpuCall& call) {
  const cuda::Engine::Here here(engine(), 0);
  std::deque<Mirror> mirrors;
  std::vector<Mirror*> outputs;
  for (const api::Field& field : api::fields()) {
    tessera_tensor& t = desc.*field.given;
    t.device_type = TESSERA_CUDA;
    if (t.data == nullptr || empty(t)) continue;
    Mirror& mirror = mirrors.emplace_back(t);
    t.data = mirror.place();
    if (field.use == api::Use::kOutput) outputs.push_back(&mirror);
  }
  const tessera_status status = call(desc);
  if (status != TESSERA_OK) return status;
  engine().driver().check(engine().driver()->StreamSynchronize(nullptr), "cuStreamSynchronize");
  for (Mirror* output : outputs)
    EXPECT_TRUE(output->fetch()) << "the kernel wrote beside an output";
  return status;
}

}  // namespace

const std::string& why_no_gpu() { return engine().driver().why_not(); }

tessera_status on_gpu(tessera_attention_desc desc, const GpuCall& call) {
  desc.backend = TESSERA_BACKEND_CUDA;
  try {
    return call_there(desc, call);
  } catch (const core::Error& e) {
    ADD_FAILURE() << e.what();
    return tessera_status(e.status());
  }
}

#else

const std::string& why_no_gpu() {
  static const std::string why = "the library was built without its GPU part";
  return why;
}

tessera_status on_gpu(tessera_attention_desc, const GpuCall&) { return TESSERA_UNSUPPORTED; }

#endif

tessera_status attend_on_gpu(tessera_context* context, const tessera_attention_desc& desc,
                             tessera_error* error) {
  return on_gpu(desc, [&](const tessera_attention_desc& there) {
    return tessera_attention(context, &there, error);
  });
}

}  // namespace tessera::test
