#include "cuda/module.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/source.hpp"

namespace tessera::cuda {
namespace {

// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kDynamicShared = 8;

std::string capability(int arch) {
  return std::to_string(arch / 10) + "." + std::to_string(arch % 10);
}

// Whether the code of an image can run: a cubin on its own generation, PTX on all that follow.
bool fits(const Image& image, std::string_view kernel, int arch) {
  return image.kernel == kernel && image.arch <= arch &&
         (image.ptx || image.arch / 10 == arch / 10);
}

// All that decides what NVRTC makes of an entry.
std::string key_of(const std::string& text, int target, int version) {
  std::string all = text;
  for (const Header& header : headers()) all.append(header.name).append(header.text);
  std::string options = "sm_" + std::to_string(target) + " NVRTC " + std::to_string(version);
  for (const char* option : kJitOptions) options.append(" ").append(option);
  return cache_key(all, options);
}

}  // namespace

const char* name_of(Origin origin) {
  constexpr const char* kNames[] = {"compiled ahead", "the disk cache", "NVRTC",
                                    "PTX, compiled by the driver"};
  return kNames[int(origin)];
}

// One search for code, and what was in its way.
struct Modules::Search {
  const plan::GpuPlan& plan;
  const Place& at;
  std::string kernel;
  Loaded found;
  std::string notes;

  int arch() const { return at.gpu.arch; }
  void note(const std::string& why) { notes += (notes.empty() ? "" : "; ") + why; }
};

Modules::~Modules() {
  for (LibraryHandle library : libraries_) driver_->LibraryUnload(library);
}

const Loaded* Modules::known(const plan::KernelKey& key, ContextHandle context) const {
  for (const Slot& slot : slots_)
    if (slot.context == context && slot.key == key) return &slot.loaded;
  return nullptr;
}

const Loaded* Modules::known_elsewhere(const plan::KernelKey& key, Ordinal ordinal) const {
  for (const Slot& slot : slots_)
    if (slot.ordinal == ordinal && slot.key == key) return &slot.loaded;
  return nullptr;
}

Loaded Modules::find(const plan::GpuPlan& plan, const Place& at) {
  {
    const std::shared_lock lock(slots_lock_);
    if (const Loaded* loaded = known(plan.kernel, at.context)) return *loaded;
  }
  const std::lock_guard loading(loading_);  // alone, so the slots can be read as they are
  if (const Loaded* loaded = known(plan.kernel, at.context)) return *loaded;
  const Loaded* elsewhere = known_elsewhere(plan.kernel, at.ordinal);
  const Loaded loaded = elsewhere != nullptr ? *elsewhere : load(plan, at);
  // Loads it into this context now: its first launch may stand in a stream that is being captured.
  FunctionHandle function = nullptr;
  driver_.check(driver_->KernelGetFunction(&function, loaded.kernel), "cuKernelGetFunction");
  const std::unique_lock lock(slots_lock_);
  slots_.push_back({plan.kernel, at.ordinal, at.context, loaded});
  return loaded;
}

Loaded Modules::load(const plan::GpuPlan& plan, const Place& at) {
  Search search{plan, at, plan::name_of(plan.kernel), {}, {}};
  try_images(search, false);
  if (!search.found.kernel) try_compiler(search);
  if (!search.found.kernel) try_images(search, true);
  if (search.found.kernel) return search.found;
  core::fail(core::Status::kUnsupported, "there is no code of " + search.kernel + " for " +
                                             at.gpu.name + " (compute capability " +
                                             capability(at.gpu.arch) + "): " + search.notes);
}

// The newest first.
void Modules::try_images(Search& search, bool ptx) {
  std::vector<Image> fitting;
  for (const Image& image : sources_.images)
    if (image.ptx == ptx && fits(image, search.kernel, search.arch())) fitting.push_back(image);
  std::sort(fitting.begin(), fitting.end(),
            [](const Image& a, const Image& b) { return a.arch > b.arch; });
  for (const Image& image : fitting)
    if (take(search, image.bytes.data(), ptx ? Origin::kPtx : Origin::kEmbedded)) return;
  if (fitting.empty() && ptx) search.note("this library was built without nvcc, so it has no PTX");
}

void Modules::try_compiler(Search& search) {
  if (!sources_.nvrtc) return;
  const Nvrtc& nvrtc = sources_.nvrtc();
  if (!nvrtc.usable()) return search.note(nvrtc.why_not());
  const int target = nvrtc.target_for(search.arch());
  if (target == 0)
    return search.note("NVRTC " + std::to_string(nvrtc.version() / 1000) + "." +
                       std::to_string(nvrtc.version() / 10 % 100) +
                       " does not know it; install a newer one, or an older of 12 for old GPUs");
  const std::string text = entry_text(search.plan.kernel);
  const std::string key = key_of(text, target, nvrtc.version());
  if (sources_.cache != nullptr)
    if (const auto cubin = sources_.cache->load(key))
      if (take(search, cubin->data(), Origin::kCache)) return;
  const Compiled compiled = nvrtc.compile(text, target);
  if (!compiled.why_not.empty()) return search.note(compiled.why_not);
  if (take(search, compiled.cubin.data(), Origin::kNvrtc) && sources_.cache != nullptr)
    sources_.cache->store(key, compiled.cubin);
}

bool Modules::take(Search& search, const char* code, Origin origin) {
  LibraryHandle library = nullptr;
  KernelHandle kernel = nullptr;
  Result result =
      driver_->LibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == kSuccess)
    result = driver_->LibraryGetKernel(&kernel, library, search.kernel.c_str());
  if (result == kSuccess)
    result = driver_->KernelSetAttribute(kDynamicShared, int(search.plan.shared_bytes), kernel,
                                         search.at.ordinal);
  if (result == kSuccess) {
    libraries_.push_back(library);
    search.found = {kernel, origin};
    return true;
  }
  search.note("the driver does not load the code from " + std::string(name_of(origin)) +
              ": it says " + driver_.words(result));
  if (library != nullptr) driver_->LibraryUnload(library);
  return false;
}

}  // namespace tessera::cuda
