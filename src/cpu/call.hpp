// What the workers of one call share.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "core/gradients.hpp"
#include "core/problem.hpp"
#include "cpu/schedule.hpp"
#include "plan/plan.hpp"

namespace tessera::cpu {

// Every worker has its share of the tasks, in order, and then helps the others: put the longest
// first, and those that read the same memory side by side.
class Tasks {
 public:
  static constexpr int kMaxWorkers = 256;

  // The share of worker w is [first(w), first(w + 1)).
  template <class First> void reset(int workers, First&& first) {
    workers_ = workers;
    for (int w = 0; w < workers; ++w) new (&share(w)) Share{first(w), first(w + 1)};
  }

  // Calls f(task) until none is left for anybody.
  template <class F> void work(int worker, F&& f) {
    for (int i = 0; i < workers_; ++i) {
      Share& s = share((worker + i) % workers_);
      for (std::int64_t t; (t = s.next.fetch_add(1, std::memory_order_relaxed)) < s.end;) f(t);
    }
  }

 private:
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  Share& share(int worker) { return reinterpret_cast<Share*>(memory_)[worker]; }

  int workers_ = 0;
  // Not initialised, since a small call should not pay for all of it.
  alignas(Share) std::byte memory_[kMaxWorkers * sizeof(Share)];
};

struct Call {
  const core::Problem& problem;
  const plan::Plan& plan;
  std::byte* memory;  // plan.workspace_bytes(): shared, then that of each worker
  Schedule schedule;
  Tasks tasks;
  const core::Gradients* gradients = nullptr;  // of the backward pass

  Call(const core::Problem& p, const plan::Plan& as_planned, std::byte* workspace)
      : problem(p),
        plan(as_planned),
        memory(workspace),
        schedule(p, as_planned, reinterpret_cast<plan::Stretch*>(workspace)) {}

  float* shared() const { return reinterpret_cast<float*>(memory); }
  float* of_worker(int worker) const {
    return reinterpret_cast<float*>(memory + plan.shared_bytes + worker * plan.worker_bytes);
  }
};

// One phase of the work of one worker.
using Phase = void (*)(Call& call, int worker);

// The kernels of one set of instructions.
struct Target {
  const char* name;
  std::int64_t lanes;
  bool (*present)();
  bool (*preferred)();        // whether it is, where present, faster than the rows below it
  plan::Arithmetic bfloat16;  // what plan::Device says of it
  Phase forward;
  Phase decode[2];       // the states of splits, and their merge
  Phase backward;        // dq, dk and dv
  Phase reduce_queries;  // dq, where the keys were split
  Phase bias, sink;      // their gradients
  Phase standard[3];     // S = Q K^T, P = softmax S, O = P V: all workers end one before the next
};

// Every target of this library, the best first.
std::span<const Target> target_table();

}  // namespace tessera::cpu
