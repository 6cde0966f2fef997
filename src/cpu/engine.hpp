// The CPU backend as the rest of the library sees it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "cpu/executor.hpp"
#include "plan/plan.hpp"

namespace tessera::cpu {

// A set of instructions that the kernels were compiled for.
struct TargetInfo {
  std::string_view name;
  std::int64_t lanes;  // float32 in one vector
  bool present;        // this processor has it
  bool preferred;      // it is the faster one there
  plan::Arithmetic bfloat16;
};

// All that this library carries, the best first.
std::vector<TargetInfo> targets();

// Threads, scratch and the choice of instructions. run() may be called from several threads.
class Engine {
 public:
  struct Options {
    int threads = 1;          // >= 1
    std::string_view target;  // the name of a target that is present
    Executor executor;        // parallel_for == nullptr: a pool of our own
    Allocator allocator;      // allocate == nullptr: the C++ library's
  };

  explicit Engine(const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const plan::Device& device() const;

  // Computes the problem as planned for device(): backends kCpu and kStandard. `lent` is workspace
  // of at least plan.workspace_bytes(), or null.
  void run(const core::Problem& problem, const plan::Plan& plan, void* lent = nullptr);
  // The gradients of the problem, as planned by plan::make_backward_plan.
  void run_backward(const core::Problem& problem, const core::Gradients& gradients,
                    const plan::Plan& plan, void* lent = nullptr);

 private:
  struct Inside;
  struct Turn;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tessera::cpu
