// Where NVRTC may lie.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cuda/jit.hpp"

namespace tessera::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Of the packages nvidia-cuda-nvrtc (CUDA 13) and nvidia-cuda-nvrtc-cu12, in site-packages.
constexpr const char* kPackages[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void add_folder(std::vector<std::string>& list, const fs::path& folder) {
  std::error_code error;
  for (const char* name : kNames)
    if (fs::exists(folder / name, error)) list.push_back((folder / name).string());
}

void add_site_packages(std::vector<std::string>& list, const fs::path& folder) {
  for (const char* package : kPackages) add_folder(list, folder / package);
}

// site-packages/tessera/lib/libtessera.so
fs::path packages_beside_this_library() {
  Dl_info info;
  static const char here = 0;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  return fs::path(info.dli_fname).parent_path().parent_path().parent_path();
}

void add_environment(std::vector<std::string>& list, const fs::path& root) {
  std::error_code error;
  for (const fs::directory_entry& python : fs::directory_iterator(root / "lib", error))
    if (python.path().filename().string().starts_with("python"))
      add_site_packages(list, python.path() / "site-packages");
}

}  // namespace

std::vector<std::string> nvrtc_search_list() {
  if (const std::string named = variable("TESSERA_NVRTC"); !named.empty()) return {named};
  std::vector<std::string> list(std::begin(kNames), std::end(kNames));
  if (const fs::path beside = packages_beside_this_library(); !beside.empty())
    add_site_packages(list, beside);
  if (const std::string root = variable("VIRTUAL_ENV"); !root.empty()) add_environment(list, root);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string root = variable(name); !root.empty())
      add_folder(list, fs::path(root) / "lib64");
  add_folder(list, "/usr/local/cuda/lib64");
  return list;
}

}  // namespace tessera::cuda
