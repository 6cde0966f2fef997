// The NVIDIA driver, opened at run time: nothing is linked, and a machine without a GPU is a value
// with a sentence.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/gpu.hpp"

namespace tessera::cuda {

// Handles and numbers of the driver interface, as CUDA Driver API 12.0 lays them out. Declared
// here, so that a build needs no toolkit.
using Result = int;             // CUresult
using Ordinal = int;            // CUdevice
using Address = std::uint64_t;  // CUdeviceptr
struct ContextOpaque;
struct StreamOpaque;
struct LibraryOpaque;
struct KernelOpaque;
struct FunctionOpaque;
using ContextHandle = ContextOpaque*;    // CUcontext
using StreamHandle = StreamOpaque*;      // CUstream
using LibraryHandle = LibraryOpaque*;    // CUlibrary
using KernelHandle = KernelOpaque*;      // CUkernel
using FunctionHandle = FunctionOpaque*;  // CUfunction

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  StreamHandle stream;
  const void* attributes;
  unsigned attribute_count;
};

inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100;

// The functions of libcuda that we call; each is named as there, without its "cu".
struct EntryPoints {
  Result (*Init)(unsigned flags);
  Result (*DriverGetVersion)(int* version);
  Result (*GetErrorName)(Result, const char** name);
  Result (*GetErrorString)(Result, const char** text);
  Result (*DeviceGetCount)(int* count);
  Result (*DeviceGet)(Ordinal* device, int ordinal);
  Result (*DeviceGetName)(char* name, int bytes, Ordinal device);
  Result (*DeviceGetAttribute)(int* value, int attribute, Ordinal device);
  Result (*DeviceTotalMem)(std::size_t* bytes, Ordinal device);
  Result (*DevicePrimaryCtxRetain)(ContextHandle* context, Ordinal device);
  Result (*DevicePrimaryCtxRelease)(Ordinal device);
  Result (*CtxGetCurrent)(ContextHandle* context);
  Result (*CtxGetDevice)(Ordinal* device);
  Result (*CtxPushCurrent)(ContextHandle context);
  Result (*CtxPopCurrent)(ContextHandle* context);
  Result (*StreamSynchronize)(StreamHandle stream);
  Result (*LibraryLoadData)(LibraryHandle* library, const void* code, const int* jit_options,
                            void** jit_values, unsigned jit_count, const int* options,
                            void** values, unsigned count);
  Result (*LibraryUnload)(LibraryHandle library);
  Result (*LibraryGetKernel)(KernelHandle* kernel, LibraryHandle library, const char* name);
  Result (*KernelGetFunction)(FunctionHandle* function, KernelHandle kernel);
  Result (*KernelSetAttribute)(int attribute, int value, KernelHandle kernel, Ordinal device);
  Result (*LaunchKernelEx)(const LaunchConfig* config, FunctionHandle function, void** parameters,
                           void** extra);
  Result (*MemAlloc)(Address* memory, std::size_t bytes);
  Result (*MemFree)(Address memory);
  Result (*MemcpyHtoD)(Address to, const void* from, std::size_t bytes);
  Result (*MemcpyDtoH)(void* to, Address from, std::size_t bytes);
};

class Driver {
 public:
  // Opens a library by the name of its file. It stays open until the program ends.
  static Driver open(const char* library);
  // libcuda.so.1, opened by the first call.
  static const Driver& system();

  // Empty if there is a GPU to work with, else a sentence.
  const std::string& why_not() const { return why_not_; }
  bool usable() const { return why_not_.empty(); }
  int version() const { return version_; }                      // 13000 is 13.0; 0 if unknown
  const std::vector<plan::Gpu>& gpus() const { return gpus_; }  // by their ordinal

  const EntryPoints* operator->() const { return &entries_; }

  // What a result means, in the driver's words.
  std::string words(Result result) const;
  // Fails with a sentence unless the call succeeded.
  void check(Result result, std::string_view function) const {
    if (result != kSuccess) [[unlikely]]
      fail(result, function);
  }

 private:
  [[noreturn]] void fail(Result result, std::string_view function) const;
  std::string start(const char* library);
  std::string find_entries(void* library);
  std::string find_gpus();

  EntryPoints entries_{};
  std::string why_not_;
  int version_ = 0;
  std::vector<plan::Gpu> gpus_;
};

}  // namespace tessera::cuda
