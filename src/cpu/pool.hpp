// Threads that spin for a while, then sleep; the caller is worker 0.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "cpu/executor.hpp"

namespace tessera::cpu {

class Pool {
 public:
  // Starts threads - 1 threads; fails with kOutOfMemory where the system has no more.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return int(threads_.size()) + 1; }

  // Calls body(argument, w) for each w in [0, workers), workers <= threads(), and returns when all
  // have returned. One caller at a time.
  void run(std::int32_t workers, Executor::Body body, void* argument);

 private:
  void serve(std::int32_t worker);
  void begin_round();
  void stop();

  // One round: what to call, and how many of the threads have not returned.
  Executor::Body body_ = nullptr;
  void* argument_ = nullptr;
  std::int32_t workers_ = 0;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> round_{0};
  alignas(64) std::atomic<std::uint32_t> busy_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tessera::cpu
