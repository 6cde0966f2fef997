// A libcuda that is none: it keeps a record of what is asked of it, fails where it is told to, and
// its GPUs' memory is that of the host. Tests open it in place of libcuda.so.1; they reach its
// record through the symbol fake_cuda.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/params.cuh"

namespace tessera::fake {

struct Gpu {
  std::string name = "Fake GPU";
  int major = 9, minor = 0, multiprocessors = 132, shared_bytes = 232448;
  std::size_t memory_bytes = std::size_t{1} << 34;
};

struct Launch {
  std::string kernel;
  unsigned grid[3], block[3], shared_bytes;
  void* stream = nullptr;
  void* context = nullptr;
  device::ForwardParams params;
};

struct Cuda {
  std::mutex lock;
  std::vector<Gpu> gpus{Gpu{}};
  std::map<std::string, int> fail;        // entry point -> what it returns
  std::map<std::string, int> fail_times;  // ... so often; without an entry, always
  std::set<std::string> hidden;           // entry points that cuGetProcAddress does not find
  std::map<std::string, int> calls;
  std::vector<std::string> images;  // the first 64 bytes of what was loaded
  std::vector<Launch> launches;
  std::map<std::uint64_t, std::size_t> memory;  // allocations
  std::map<int, int> shared_of;                 // the largest shared memory asked for, by device
  std::atomic<bool> recording{true};            // off for measurements: then launches cost nothing
  // Carries out a launch; false if it went wrong.
  bool (*compute)(Cuda&, const Launch&) = nullptr;

  void reset() {
    const std::lock_guard hold(lock);
    gpus = {Gpu{}};
    fail.clear(), fail_times.clear(), hidden.clear(), calls.clear();
    images.clear(), launches.clear(), shared_of.clear();
  }
};

// The emulator, where it is wanted.
bool (*compute_of_environment())(Cuda&, const Launch&);

// Of the shared library: Cuda* fake_cuda().
using Access = Cuda* (*)();

}  // namespace tessera::fake
