// NVRTC, NVIDIA's compiler as a library, opened at run time. It compiles to a cubin without a GPU.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cuda/embedded.hpp"

namespace tessera::cuda {

// The functions of libnvrtc that we call; each is named as there, without its "nvrtc".
struct NvrtcEntryPoints {
  int (*Version)(int* major, int* minor);
  const char* (*GetErrorString)(int result);
  int (*GetNumSupportedArchs)(int* count);
  int (*GetSupportedArchs)(int* archs);
  int (*CreateProgram)(void** program, const char* text, const char* name, int headers,
                       const char* const* texts, const char* const* names);
  int (*DestroyProgram)(void** program);
  int (*CompileProgram)(void* program, int options, const char* const* words);
  int (*GetProgramLogSize)(void* program, std::size_t* bytes);
  int (*GetProgramLog)(void* program, char* log);
  int (*GetCUBINSize)(void* program, std::size_t* bytes);
  int (*GetCUBIN)(void* program, char* cubin);
};

// What it is told beside the architecture. Functions of policy.cuh are for hosts too, and have no
// __device__.
inline constexpr const char* kJitOptions[] = {"--std=c++20", "--device-as-default-execution-space"};

// Bytes, or why there are none.
struct Compiled {
  std::string cubin;
  std::string why_not;
};

class Nvrtc {
 public:
  // Opens the first of the libraries that opens, each a path or the name of a file.
  static Nvrtc open(std::span<const std::string> candidates);
  // The first of search_list(), opened by the first call; it stays open.
  static const Nvrtc& system();

  // Empty if it can compile, else a sentence.
  const std::string& why_not() const { return why_not_; }
  bool usable() const { return why_not_.empty(); }
  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 13000 is 13.0

  // The architecture to compile for, so that code runs on `arch`; 0 if there is none.
  int target_for(int arch) const;
  // Compiles one translation unit with the headers of src/device.
  Compiled compile(const std::string& text, int target) const;

 private:
  std::string find_entries(void* library);

  NvrtcEntryPoints entries_{};
  std::string why_not_, path_;
  int version_ = 0;
  std::vector<int> archs_;
};

// Where NVRTC is looked for, in order: the file that TESSERA_NVRTC names (then nothing else), the
// paths of the dynamic linker, where torch's has been opened already, the packages of Python beside
// this library and in VIRTUAL_ENV, and CUDA toolkits.
std::vector<std::string> nvrtc_search_list();

}  // namespace tessera::cuda
