#include "tools/tessera/gpu.hpp"

#include "core/error.hpp"
#include "cuda/engine.hpp"
#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using Desc = tessera_attention_desc;

// What the driver refuses is a Failure, as what the library refuses is.
template <class F> auto asked(F f) {
  try {
    return f();
  } catch (const core::Error& error) {
    throw Failure(error.status() == core::Status::kInternal ? kWrong : kNotSupported, error.what());
  }
}

// The bytes from the first to the last element.
struct Extent {
  std::byte* first = nullptr;
  std::int64_t before = 0, bytes = 0;  // before: from `first` to element [0, 0, 0, 0]
};

Extent extent(const tessera_tensor& t) {
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < 4; ++i) {
    if (t.shape[i] == 0) return {};
    const std::int64_t reach = (t.shape[i] - 1) * t.stride[i];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t size = core::size_of(core::DType(t.dtype));
  return {static_cast<std::byte*>(t.data) + low * size, -low * size, (high - low + 1) * size};
}

}  // namespace

struct OnGpu::Copies {
  struct Copy {
    Extent host;
    cuda::Address place = 0;
    bool written = false;
  };

  cuda::Engine& engine = cuda::Engine::system();
  const cuda::Driver& driver = engine.driver();
  cuda::Engine::Here here{engine, checked(engine)};
  std::vector<Copy> all;

  ~Copies() {
    for (const Copy& copy : all) driver->MemFree(copy.place);
  }

  // GPU 0, if there is one.
  static int checked(const cuda::Engine& engine) {
    engine.gpu(0);
    return 0;
  }

  void add(tessera_tensor& t, bool written) {
    const Extent host = extent(t);
    if (t.data == nullptr || host.bytes == 0) return;
    Copy copy{host, 0, written};
    driver.check(driver->MemAlloc(&copy.place, std::size_t(host.bytes)), "cuMemAlloc");
    all.push_back(copy);
    driver.check(driver->MemcpyHtoD(copy.place, host.first, std::size_t(host.bytes)),
                 "cuMemcpyHtoD");
    t.data = reinterpret_cast<std::byte*>(copy.place) + host.before;
  }
};

OnGpu::OnGpu(Desc& desc) {
  if (desc.backend != TESSERA_BACKEND_CUDA) return;
  place(desc);
  asked([&] {
    copies_ = std::make_unique<Copies>();
    for (const auto member : kCallTensors)
      copies_->add(desc.*member, member == &Desc::out || member == &Desc::lse);
  });
}

OnGpu::~OnGpu() = default;

void OnGpu::wait() const {
  if (!copies_) return;
  const cuda::Driver& driver = copies_->driver;
  asked([&] { driver.check(driver->StreamSynchronize(nullptr), "cuStreamSynchronize"); });
}

void OnGpu::fetch() const {
  if (!copies_) return;
  wait();
  const cuda::Driver& driver = copies_->driver;
  asked([&] {
    for (const Copies::Copy& copy : copies_->all)
      if (copy.written)
        driver.check(driver->MemcpyDtoH(copy.host.first, copy.place, std::size_t(copy.host.bytes)),
                     "cuMemcpyDtoH");
  });
}

namespace {

class OpenCache {
 public:
  OpenCache() : cache_(cuda::Cache::default_folder(), cuda::Missing::kStays) {
    if (!cache_.why_not().empty()) throw Failure(kNotSupported, cache_.why_not());
  }
  const cuda::Cache* operator->() const { return &cache_; }

 private:
  cuda::Cache cache_;
};

}  // namespace

std::string cache_folder() { return OpenCache()->folder(); }

std::vector<CachedKernel> cached_kernels() {
  std::vector<CachedKernel> all;
  for (const cuda::Cache::Entry& entry : OpenCache()->entries())
    all.push_back({entry.key, entry.bytes, entry.used / 1'000'000'000});
  return all;
}

std::int64_t clear_cache() { return OpenCache()->clear(); }

}  // namespace tessera::tool
