// From the key of a kernel to a function that can be launched: compiled ahead, from the disk cache,
// by NVRTC, or from PTX by the driver. The caller cannot tell.
#pragma once
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "cuda/cache.hpp"
#include "cuda/driver.hpp"
#include "cuda/embedded.hpp"
#include "cuda/jit.hpp"
#include "plan/gpu.hpp"

namespace tessera::cuda {

enum class Origin { kEmbedded, kCache, kNvrtc, kPtx };
const char* name_of(Origin origin);

// Where code may come from. Tests leave some out.
struct Sources {
  std::span<const Image> images;
  const Cache* cache = nullptr;
  std::function<const Nvrtc&()> nvrtc;  // asked only if it is needed: opening it takes a while
};

// A kernel that can be launched in any context of one GPU.
struct Loaded {
  KernelHandle kernel = nullptr;
  Origin origin = Origin::kEmbedded;
};

// Where a call runs.
struct Place {
  const plan::Gpu& gpu;
  Ordinal ordinal;
  ContextHandle context;  // the current one
};

// Kernels live as long as this; it may be used by many threads.
class Modules {
 public:
  Modules(const Driver& driver, Sources sources) : driver_(driver), sources_(std::move(sources)) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // The kernel of a plan, loaded by the first call for its GPU. Fails with UNSUPPORTED and what
  // would help where there is no code for it.
  Loaded find(const plan::GpuPlan& plan, const Place& at);

 private:
  struct Slot {
    plan::KernelKey key;
    Ordinal ordinal;
    ContextHandle context;
    Loaded loaded;
  };
  struct Search;

  const Loaded* known(const plan::KernelKey& key, ContextHandle context) const;
  const Loaded* known_elsewhere(const plan::KernelKey& key, Ordinal ordinal) const;
  Loaded load(const plan::GpuPlan& plan, const Place& at);
  // Whether the driver takes the code; what it says otherwise goes to the notes of the search.
  bool take(Search& search, const char* code, Origin origin);
  void try_images(Search& search, bool ptx);
  void try_compiler(Search& search);

  const Driver& driver_;
  Sources sources_;
  mutable std::shared_mutex slots_lock_;
  std::mutex loading_;
  std::vector<Slot> slots_;
  std::vector<LibraryHandle> libraries_;
};

}  // namespace tessera::cuda
