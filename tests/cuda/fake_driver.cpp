#include "fake/fake_driver.hpp"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>

// What is exported is C, and named as in libcuda.
#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace tessera::fake {
namespace {

constexpr int kInvalidValue = 1, kNoDevice = 100, kNotFound = 500, kLaunchFailed = 719;

// FAKE_CUDA_FAIL="cuInit=999" for programs whose insides a test cannot reach.
void read_environment(Cuda& cuda) {
  const char* fail = std::getenv("FAKE_CUDA_FAIL");
  const char* equals = fail == nullptr ? nullptr : std::strchr(fail, '=');
  if (equals != nullptr) cuda.fail[std::string(fail, equals)] = std::atoi(equals + 1);
  if (std::getenv("FAKE_CUDA_QUIET") != nullptr) cuda.recording = false;
  cuda.compute = compute_of_environment();
}

Cuda& cuda() {
  static Cuda& all = []() -> Cuda& {
    auto* made = new Cuda;
    read_environment(*made);
    return *made;
  }();
  return all;
}

// Counts a call; what it has to return, if not success.
int enter(const char* name) {
  Cuda& c = cuda();
  if (!c.recording) return 0;
  const std::lock_guard hold(c.lock);
  ++c.calls[name];
  const auto fail = c.fail.find(name);
  if (fail == c.fail.end()) return 0;
  const auto times = c.fail_times.find(name);
  if (times != c.fail_times.end() && times->second-- <= 0) return 0;
  return fail->second;
}

struct Kernel {
  std::string name;
};
struct Config {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const void* attributes;
  unsigned attribute_count;
};

thread_local std::vector<void*> contexts;

// The primary context of device 1 is the pointer 0x1001.
void* primary_of(int device) { return reinterpret_cast<void*>(std::uintptr_t(0x1000 + device)); }
int device_of(void* context) { return int(reinterpret_cast<std::uintptr_t>(context) & 0xfff); }

int init(unsigned) {
  if (const int failed = enter("cuInit")) return failed;
  return cuda().gpus.empty() ? kNoDevice : 0;
}
int driver_get_version(int* version) {
  *version = 13000;
  return enter("cuDriverGetVersion");
}
int get_error_name(int result, const char** name) {
  *name = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return 0;
}
int get_error_string(int, const char** text) {
  *text = "as the test wanted";
  return 0;
}
int device_get_count(int* count) {
  *count = int(cuda().gpus.size());
  return enter("cuDeviceGetCount");
}
int device_get(int* device, int ordinal) {
  *device = ordinal;
  return enter("cuDeviceGet");
}
int device_get_name(char* name, int bytes, int device) {
  std::strncpy(name, cuda().gpus[std::size_t(device)].name.c_str(), std::size_t(bytes));
  return enter("cuDeviceGetName");
}
int device_get_attribute(int* value, int attribute, int device) {
  const Gpu& gpu = cuda().gpus[std::size_t(device)];
  switch (attribute) {
    case 16: *value = gpu.multiprocessors; break;
    case 75: *value = gpu.major; break;
    case 76: *value = gpu.minor; break;
    case 97: *value = gpu.shared_bytes; break;
    default: return kInvalidValue;
  }
  return enter("cuDeviceGetAttribute");
}
int device_total_mem(std::size_t* bytes, int device) {
  *bytes = cuda().gpus[std::size_t(device)].memory_bytes;
  return enter("cuDeviceTotalMem");
}
int primary_retain(void** context, int device) {
  *context = primary_of(device);
  return enter("cuDevicePrimaryCtxRetain");
}
int primary_release(int) { return enter("cuDevicePrimaryCtxRelease"); }
int get_current(void** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return enter("cuCtxGetCurrent");
}
int get_device(int* device) {
  *device = contexts.empty() ? -1 : device_of(contexts.back());
  return enter("cuCtxGetDevice");
}
int push_current(void* context) {
  if (const int failed = enter("cuCtxPushCurrent")) return failed;
  contexts.push_back(context);
  return 0;
}
int pop_current(void** context) {
  if (contexts.empty()) return kInvalidValue;
  *context = contexts.back();
  contexts.pop_back();
  return enter("cuCtxPopCurrent");
}
int stream_synchronize(void*) { return enter("cuStreamSynchronize"); }

// A lambda, since its parameters are as many as the driver wants.
constexpr auto library_load = [](void** library, const void* code, const int*, void**, unsigned,
                                 const int*, void**, unsigned) -> int {
  if (const int failed = enter("cuLibraryLoadData")) return failed;
  const std::lock_guard hold(cuda().lock);
  cuda().images.emplace_back(static_cast<const char*>(code), 64);
  *library = new int(int(cuda().images.size()));
  return 0;
};
int library_unload(void* library) {
  delete static_cast<int*>(library);
  return enter("cuLibraryUnload");
}
int library_get_kernel(void** kernel, void*, const char* name) {
  if (const int failed = enter("cuLibraryGetKernel")) return failed;
  static std::deque<Kernel> kernels;  // they live on, as the functions of a driver do
  const std::lock_guard hold(cuda().lock);
  *kernel = &kernels.emplace_back(Kernel{name});
  return 0;
}
int kernel_get_function(void** function, void* kernel) {
  *function = kernel;
  return enter("cuKernelGetFunction");
}
int kernel_set_attribute(int, int value, void*, int device) {
  const std::lock_guard hold(cuda().lock);
  cuda().shared_of[device] = value;
  return 0;
}
int checked_set_attribute(int attribute, int value, void* kernel, int device) {
  if (const int failed = enter("cuKernelSetAttribute")) return failed;
  return kernel_set_attribute(attribute, value, kernel, device);
}
int launch(const Config* config, void* function, void** parameters, void**) {
  Cuda& c = cuda();
  if (!c.recording && c.compute == nullptr) return 0;
  if (const int failed = enter("cuLaunchKernelEx")) return failed;
  Launch made{.kernel = static_cast<Kernel*>(function)->name,
              .grid = {config->grid[0], config->grid[1], config->grid[2]},
              .block = {config->block[0], config->block[1], config->block[2]},
              .shared_bytes = config->shared_bytes,
              .stream = config->stream,
              .context = contexts.empty() ? nullptr : contexts.back(),
              .params = {}};
  std::memcpy(&made.params, parameters[0], sizeof made.params);
  const std::lock_guard hold(c.lock);
  if (c.compute != nullptr && !c.compute(c, made)) return kLaunchFailed;
  if (c.recording) c.launches.push_back(made);
  return 0;
}
int mem_alloc(std::uint64_t* memory, std::size_t bytes) {
  if (const int failed = enter("cuMemAlloc")) return failed;
  *memory = reinterpret_cast<std::uint64_t>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  const std::lock_guard hold(cuda().lock);
  cuda().memory[*memory] = bytes;
  return 0;
}
int mem_free(std::uint64_t memory) {
  const std::lock_guard hold(cuda().lock);
  if (cuda().memory.erase(memory) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(memory));
  return 0;
}
int copy_in(std::uint64_t to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return enter("cuMemcpyHtoD");
}
int copy_out(void* to, std::uint64_t from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return enter("cuMemcpyDtoH");
}

template <class F> void* address(F* function) { return reinterpret_cast<void*>(function); }

const std::map<std::string_view, void*>& entries() {
  static const std::map<std::string_view, void*> all{
      {"cuInit", address(init)},
      {"cuDriverGetVersion", address(driver_get_version)},
      {"cuGetErrorName", address(get_error_name)},
      {"cuGetErrorString", address(get_error_string)},
      {"cuDeviceGetCount", address(device_get_count)},
      {"cuDeviceGet", address(device_get)},
      {"cuDeviceGetName", address(device_get_name)},
      {"cuDeviceGetAttribute", address(device_get_attribute)},
      {"cuDeviceTotalMem", address(device_total_mem)},
      {"cuDevicePrimaryCtxRetain", address(primary_retain)},
      {"cuDevicePrimaryCtxRelease", address(primary_release)},
      {"cuCtxGetCurrent", address(get_current)},
      {"cuCtxGetDevice", address(get_device)},
      {"cuCtxPushCurrent", address(push_current)},
      {"cuCtxPopCurrent", address(pop_current)},
      {"cuStreamSynchronize", address(stream_synchronize)},
      {"cuLibraryLoadData", address(+library_load)},
      {"cuLibraryUnload", address(library_unload)},
      {"cuLibraryGetKernel", address(library_get_kernel)},
      {"cuKernelGetFunction", address(kernel_get_function)},
      {"cuKernelSetAttribute", address(checked_set_attribute)},
      {"cuLaunchKernelEx", address(launch)},
      {"cuMemAlloc", address(mem_alloc)},
      {"cuMemFree", address(mem_free)},
      {"cuMemcpyHtoD", address(copy_in)},
      {"cuMemcpyDtoH", address(copy_out)}};
  return all;
}

}  // namespace
}  // namespace tessera::fake

FAKE_EXPORT tessera::fake::Cuda* fake_cuda() { return &tessera::fake::cuda(); }

// For tests that cannot read the record: in Python.
FAKE_EXPORT void* fake_last_stream() {
  const auto& launches = tessera::fake::cuda().launches;
  return launches.empty() ? nullptr : launches.back().stream;
}

FAKE_EXPORT int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t,
                                    int* status) {
  using namespace tessera::fake;
  const auto found = entries().find(name);
  const bool there = found != entries().end() && !cuda().hidden.contains(name);
  *function = there ? found->second : nullptr;
  if (status != nullptr) *status = there ? 0 : 1;
  return there ? 0 : kNotFound;
}
