// The GPU backend: the GPUs of the machine, their kernels, and a call on one of them.
#pragma once
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/problem.hpp"
#include "cuda/cache.hpp"
#include "cuda/driver.hpp"
#include "cuda/module.hpp"
#include "plan/gpu.hpp"

namespace tessera::cuda {

class Engine {
 public:
  // Everything of this machine: the installed driver, the kernels in this library, the cache folder
  // of the environment and the NVRTC that is found. Made by the first call, for the whole program:
  // a kernel is loaded once, however many tessera_contexts there are.
  static Engine& system();
  Engine(const Driver& driver, Sources sources)
      : driver_(driver), modules_(driver, std::move(sources)) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Driver& driver() const { return driver_; }
  // Fails with UNSUPPORTED where there is no such GPU.
  const plan::Gpu& gpu(int ordinal) const;

  // Puts the call on a stream (nullptr: the default one) of a GPU, whose memory the tensors are in,
  // and returns. From any thread; the context is the current one if it is of that GPU, else the
  // primary one, in which torch and the CUDA runtime work.
  Origin run(const core::Problem& problem, const plan::GpuPlan& plan, int ordinal, void* stream);

  // Makes such a context current; fails where it cannot.
  class Here {
   public:
    Here(Engine& engine, int ordinal);
    ~Here();
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;
    ContextHandle context() const { return context_; }

   private:
    Engine& engine_;
    ContextHandle context_ = nullptr;
    bool pushed_ = false;
  };

 private:
  ContextHandle primary(int ordinal);

  const Driver& driver_;
  Modules modules_;
  std::mutex primaries_lock_;
  std::vector<ContextHandle> primaries_;  // by ordinal; nullptr: not retained
};

}  // namespace tessera::cuda
