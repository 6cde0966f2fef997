#include "cuda/engine.hpp"

#include "core/error.hpp"
#include "cuda/launch.hpp"

namespace tessera::cuda {
namespace {

Sources sources_of_this_machine(const Driver& driver) {
  if (!driver.usable()) return {};
  return {images(), new Cache(Cache::default_folder()), &Nvrtc::system};
}

}  // namespace

Engine& Engine::system() {
  // Never destroyed: at the end of the program the driver may have gone before.
  static Engine& engine = *new Engine(Driver::system(), sources_of_this_machine(Driver::system()));
  return engine;
}

Engine::~Engine() {
  for (std::size_t i = 0; i < primaries_.size(); ++i)
    if (primaries_[i] != nullptr) driver_->DevicePrimaryCtxRelease(int(i));
}

const plan::Gpu& Engine::gpu(int ordinal) const {
  if (!driver_.usable()) core::fail(core::Status::kUnsupported, driver_.why_not());
  const auto count = int(driver_.gpus().size());
  if (ordinal < 0 || ordinal >= count)
    core::fail(core::Status::kInvalidArgument,
               "device_id is " + std::to_string(ordinal) + ", but there " +
                   (count == 1 ? "is 1 GPU" : "are " + std::to_string(count) + " GPUs") +
                   " here; count from 0, as nvidia-smi does");
  return driver_.gpus()[std::size_t(ordinal)];
}

ContextHandle Engine::primary(int ordinal) {
  const std::lock_guard lock(primaries_lock_);
  primaries_.resize(driver_.gpus().size());
  ContextHandle& context = primaries_[std::size_t(ordinal)];
  if (context == nullptr)
    driver_.check(driver_->DevicePrimaryCtxRetain(&context, ordinal), "cuDevicePrimaryCtxRetain");
  return context;
}

Engine::Here::Here(Engine& engine, int ordinal) : engine_(engine) {
  const Driver& driver = engine.driver_;
  driver.check(driver->CtxGetCurrent(&context_), "cuCtxGetCurrent");
  Ordinal current = -1;
  if (context_ != nullptr) driver.check(driver->CtxGetDevice(&current), "cuCtxGetDevice");
  if (current == ordinal) return;
  context_ = engine.primary(ordinal);
  driver.check(driver->CtxPushCurrent(context_), "cuCtxPushCurrent");
  pushed_ = true;
}

Engine::Here::~Here() {
  ContextHandle before = nullptr;
  if (pushed_) engine_.driver_->CtxPopCurrent(&before);
}

Origin Engine::run(const core::Problem& problem, const plan::GpuPlan& plan, int ordinal,
                   void* stream) {
  const plan::Gpu& on = gpu(ordinal);
  if (plan.empty()) return Origin::kEmbedded;
  const Here here(*this, ordinal);
  const Loaded loaded = modules_.find(plan, {on, ordinal, here.context()});
  launch(driver_, loaded.kernel, problem, plan, static_cast<StreamHandle>(stream));
  return loaded.origin;
}

}  // namespace tessera::cuda
