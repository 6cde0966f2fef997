#include "cuda/driver.hpp"

#include <dlfcn.h>

#include "core/error.hpp"

namespace tessera::cuda {
namespace {

// The interface that we ask for: every function as it was in CUDA 12.0.
constexpr int kInterface = 12000;

// CUdevice_attribute
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedOptIn = 97;

// cuGetProcAddress_v2
using GetProcAddress = Result (*)(const char* name, void** function, int version,
                                  std::uint64_t flags, int* status);

struct Entry {
  const char* name;
  void** place;
};

template <class Function> void** place_of(Function*& function) {
  return reinterpret_cast<void**>(&function);
}

std::vector<Entry> entries_of(EntryPoints& e) {
  return {{"cuInit", place_of(e.Init)},
          {"cuDriverGetVersion", place_of(e.DriverGetVersion)},
          {"cuGetErrorName", place_of(e.GetErrorName)},
          {"cuGetErrorString", place_of(e.GetErrorString)},
          {"cuDeviceGetCount", place_of(e.DeviceGetCount)},
          {"cuDeviceGet", place_of(e.DeviceGet)},
          {"cuDeviceGetName", place_of(e.DeviceGetName)},
          {"cuDeviceGetAttribute", place_of(e.DeviceGetAttribute)},
          {"cuDeviceTotalMem", place_of(e.DeviceTotalMem)},
          {"cuDevicePrimaryCtxRetain", place_of(e.DevicePrimaryCtxRetain)},
          {"cuDevicePrimaryCtxRelease", place_of(e.DevicePrimaryCtxRelease)},
          {"cuCtxGetCurrent", place_of(e.CtxGetCurrent)},
          {"cuCtxGetDevice", place_of(e.CtxGetDevice)},
          {"cuCtxPushCurrent", place_of(e.CtxPushCurrent)},
          {"cuCtxPopCurrent", place_of(e.CtxPopCurrent)},
          {"cuStreamSynchronize", place_of(e.StreamSynchronize)},
          {"cuLibraryLoadData", place_of(e.LibraryLoadData)},
          {"cuLibraryUnload", place_of(e.LibraryUnload)},
          {"cuLibraryGetKernel", place_of(e.LibraryGetKernel)},
          {"cuKernelGetFunction", place_of(e.KernelGetFunction)},
          {"cuKernelSetAttribute", place_of(e.KernelSetAttribute)},
          {"cuLaunchKernelEx", place_of(e.LaunchKernelEx)},
          {"cuMemAlloc", place_of(e.MemAlloc)},
          {"cuMemFree", place_of(e.MemFree)},
          {"cuMemcpyHtoD", place_of(e.MemcpyHtoD)},
          {"cuMemcpyDtoH", place_of(e.MemcpyDtoH)}};
}

}  // namespace

Driver Driver::open(const char* library) {
  Driver driver;
  driver.why_not_ = driver.start(library);
  return driver;
}

const Driver& Driver::system() {
  static const Driver driver = open("libcuda.so.1");
  return driver;
}

std::string Driver::start(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr)
    return "there is no NVIDIA driver here (" + std::string(dlerror()) +
           "); install the driver of the GPU, 525 or newer, or use the CPU backend";
  if (std::string why = find_entries(opened); !why.empty()) return why;
  const Result result = entries_.Init(0);
  entries_.DriverGetVersion(&version_);
  if (result == kNoDevice)
    return "the NVIDIA driver finds no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
           "the CPU backend";
  if (result != kSuccess)
    return "the NVIDIA driver does not start: cuInit says " + words(result) +
           "; look at nvidia-smi, or use the CPU backend";
  return find_gpus();
}

std::string Driver::find_entries(void* library) {
  void* const found = dlsym(library, "cuGetProcAddress_v2");
  if (found == nullptr)
    return "the NVIDIA driver is older than CUDA 12.0 (it has no cuGetProcAddress_v2); install "
           "525 or newer, or use the CPU backend";
  const auto get = reinterpret_cast<GetProcAddress>(found);
  for (const Entry& entry : entries_of(entries_)) {
    int status = 0;
    const Result result = get(entry.name, entry.place, kInterface, 0, &status);
    if (result != kSuccess || *entry.place == nullptr)
      return "the NVIDIA driver has no " + std::string(entry.name) +
             " of CUDA 12.0; install driver 525 or newer, or use the CPU backend";
  }
  return "";
}

std::string Driver::find_gpus() {
  int count = 0;
  Result result = entries_.DeviceGetCount(&count);
  for (int i = 0; i < count && result == kSuccess; ++i) {
    Ordinal device = 0;
    char name[128] = "";
    int major = 0, minor = 0, multiprocessors = 0, shared = 0;
    std::size_t memory = 0;
    result = entries_.DeviceGet(&device, i);
    const auto ask = [&](auto function, auto... arguments) {
      if (result == kSuccess) result = function(arguments...);
    };
    ask(entries_.DeviceGetName, name, int(sizeof name) - 1, device);
    ask(entries_.DeviceGetAttribute, &major, kMajor, device);
    ask(entries_.DeviceGetAttribute, &minor, kMinor, device);
    ask(entries_.DeviceGetAttribute, &multiprocessors, kMultiprocessors, device);
    ask(entries_.DeviceGetAttribute, &shared, kSharedOptIn, device);
    ask(entries_.DeviceTotalMem, &memory, device);
    gpus_.push_back({name, 10 * major + minor, multiprocessors, shared, std::int64_t(memory)});
  }
  if (result != kSuccess) {
    gpus_.clear();
    return "the NVIDIA driver does not describe its GPUs: it says " + words(result) +
           "; look at nvidia-smi, or use the CPU backend";
  }
  if (count == 0)
    return "the NVIDIA driver finds no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
           "the CPU backend";
  return "";
}

std::string Driver::words(Result result) const {
  const char *name = nullptr, *text = nullptr;
  entries_.GetErrorName(result, &name);
  entries_.GetErrorString(result, &text);
  if (name == nullptr) return "error " + std::to_string(result);
  return std::string(name) + (text == nullptr ? "" : " (" + std::string(text) + ")");
}

void Driver::fail(Result result, std::string_view function) const {
  const bool memory = result == kOutOfMemory;
  core::fail(memory ? core::Status::kOutOfMemory : core::Status::kInternal,
             "the NVIDIA driver says " + words(result) + " in " + std::string(function) +
                 (memory ? "; free memory of the GPU"
                         : "; an earlier kernel of the program may have failed: run it with "
                           "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to see"));
}

}  // namespace tessera::cuda
