#include "cuda/jit.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "cuda/source.hpp"

namespace tessera::cuda {
namespace {

namespace fs = std::filesystem;

struct Entry {
  const char* name;
  void** place;
};

template <class Function> void** place_of(Function*& function) {
  return reinterpret_cast<void**>(&function);
}

std::vector<Entry> entries_of(NvrtcEntryPoints& e) {
  return {{"nvrtcVersion", place_of(e.Version)},
          {"nvrtcGetErrorString", place_of(e.GetErrorString)},
          {"nvrtcGetNumSupportedArchs", place_of(e.GetNumSupportedArchs)},
          {"nvrtcGetSupportedArchs", place_of(e.GetSupportedArchs)},
          {"nvrtcCreateProgram", place_of(e.CreateProgram)},
          {"nvrtcDestroyProgram", place_of(e.DestroyProgram)},
          {"nvrtcCompileProgram", place_of(e.CompileProgram)},
          {"nvrtcGetProgramLogSize", place_of(e.GetProgramLogSize)},
          {"nvrtcGetProgramLog", place_of(e.GetProgramLog)},
          {"nvrtcGetCUBINSize", place_of(e.GetCUBINSize)},
          {"nvrtcGetCUBIN", place_of(e.GetCUBIN)}};
}

// NVRTC opens its built-in functions by their bare name, which the linker finds only if somebody
// has opened them before.
void open_builtins_beside(const std::string& library) {
  std::error_code error;
  for (const fs::directory_entry& file :
       fs::directory_iterator(fs::path(library).parent_path(), error))
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so"))
      dlopen(file.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
}

std::string path_of(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// A compiler's message can be long; its first lines name the reason.
std::string beginning(const std::string& log) {
  constexpr std::size_t kMost = 300;
  return log.size() <= kMost ? log : log.substr(0, kMost) + " ...";
}

}  // namespace

Nvrtc Nvrtc::open(std::span<const std::string> candidates) {
  Nvrtc nvrtc;
  for (const std::string& candidate : candidates) {
    if (candidate.find('/') != candidate.npos) open_builtins_beside(candidate);
    void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    nvrtc.path_ = candidate;
    nvrtc.why_not_ = nvrtc.find_entries(library);
    return nvrtc;
  }
  nvrtc.why_not_ =
      "NVRTC was not found (" +
      (candidates.empty() ? std::string("nowhere to look") : "not as " + candidates.front()) +
      (candidates.size() > 1 ? " nor in " + std::to_string(candidates.size() - 1) + " other places"
                             : "") +
      "); install it with pip install nvidia-cuda-nvrtc, or name its file in TESSERA_NVRTC";
  return nvrtc;
}

const Nvrtc& Nvrtc::system() {
  static const Nvrtc nvrtc = open(nvrtc_search_list());
  return nvrtc;
}

std::string Nvrtc::find_entries(void* library) {
  for (const Entry& entry : entries_of(entries_)) {
    *entry.place = dlsym(library, entry.name);
    if (*entry.place == nullptr)
      return path_ + " has no " + entry.name +
             "; it is no NVRTC of CUDA 11.2 or newer: install nvidia-cuda-nvrtc with pip";
  }
  path_ = path_of(reinterpret_cast<const void*>(entries_.Version));
  open_builtins_beside(path_);
  int major = 0, minor = 0, count = 0;
  int result = entries_.Version(&major, &minor);
  if (result == 0) result = entries_.GetNumSupportedArchs(&count);
  archs_.resize(std::size_t(count));
  if (result == 0 && count > 0) result = entries_.GetSupportedArchs(archs_.data());
  if (result != 0) return path_ + " does not start: it says " + entries_.GetErrorString(result);
  version_ = 1000 * major + 10 * minor;
  return "";
}

int Nvrtc::target_for(int arch) const {
  int best = 0;  // code for 8.0 runs on 8.6, but not on 9.0
  for (const int known : archs_)
    if (known / 10 == arch / 10 && known <= arch) best = std::max(best, known);
  return best;
}

Compiled Nvrtc::compile(const std::string& text, int target) const {
  std::vector<const char*> names, texts;
  for (const Header& header : headers()) {
    names.push_back(header.name.data());
    texts.push_back(header.text.data());
  }
  void* program = nullptr;
  int result = entries_.CreateProgram(&program, text.c_str(), "kernel.cu", int(names.size()),
                                      texts.data(), names.data());
  if (result != 0) return {"", std::string("NVRTC says ") + entries_.GetErrorString(result)};
  const std::string arch = "--gpu-architecture=sm_" + std::to_string(target);
  const char* const options[] = {kJitOptions[0], kJitOptions[1], arch.c_str()};
  result = entries_.CompileProgram(program, 3, options);
  Compiled compiled;
  std::size_t bytes = 0;
  if (result == 0) result = entries_.GetCUBINSize(program, &bytes);
  compiled.cubin.resize(bytes);
  if (result == 0) result = entries_.GetCUBIN(program, compiled.cubin.data());
  if (result != 0) {
    std::size_t log_bytes = 0;
    entries_.GetProgramLogSize(program, &log_bytes);
    std::string log(log_bytes, '\0');
    if (log_bytes > 0) entries_.GetProgramLog(program, log.data());
    compiled = {"", "NVRTC does not compile it: it says " +
                        std::string(entries_.GetErrorString(result)) + ", " + beginning(log)};
  }
  entries_.DestroyProgram(&program);
  return compiled;
}

}  // namespace tessera::cuda
