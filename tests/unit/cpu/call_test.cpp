#include "cpu/call.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace tessera::cpu {
namespace {

// What was done: how often each task, and by which worker.
class Ledger {
 public:
  explicit Ledger(std::int64_t tasks) : done_(std::size_t(tasks)) {}
  void note(std::int64_t task) { done_.at(std::size_t(task)).fetch_add(1); }
  bool every_task_once() const {
    for (const auto& times : done_)
      if (times != 1) return false;
    return true;
  }

 private:
  std::vector<std::atomic<int>> done_;
};

void share_out(Tasks& tasks, std::int64_t n, int workers) {
  tasks.reset(workers, [&](int w) { return n * w / workers; });
}

constexpr int kWorkers[] = {1, 2, 3, 5, 16};
constexpr std::int64_t kTasks[] = {0, 1, 2, 3, 7, 64, 1000};

TEST(Tasks, EachOnceByWorkersInAnyOrder) {
  const auto tasks = std::make_unique<Tasks>();
  for (const int workers : kWorkers)
    for (const std::int64_t n : kTasks)
      for (const bool backwards : {false, true}) {
        Ledger ledger(n);
        share_out(*tasks, n, workers);
        for (int w = 0; w < workers; ++w)
          tasks->work(backwards ? workers - 1 - w : w, [&](std::int64_t t) { ledger.note(t); });
        ASSERT_TRUE(ledger.every_task_once()) << n << " tasks, " << workers << " workers";
      }
}

TEST(Tasks, EachOnceByThreadsOfAnySpeed) {
  const auto tasks = std::make_unique<Tasks>();
  for (int round = 0; round < 60; ++round) {
    const int workers = kWorkers[round % 5];
    const std::int64_t n = kTasks[std::size_t(round) % 7];
    Ledger ledger(n);
    share_out(*tasks, n, workers);
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w)
      threads.emplace_back([&, w] {
        const bool late = (w + round) % 3 == 0, slow = (w + round) % 4 == 0;
        if (late) std::this_thread::sleep_for(std::chrono::microseconds(300));
        tasks->work(w, [&](std::int64_t t) {
          ledger.note(t);
          if (slow && t % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        });
      });
    for (std::thread& t : threads) t.join();
    ASSERT_TRUE(ledger.every_task_once()) << n << " tasks, " << workers << " workers";
  }
}

// A worker that never comes leaves nothing undone.
TEST(Tasks, OneWorkerDoesTheWorkOfAll) {
  const auto tasks = std::make_unique<Tasks>();
  for (int w = 0; w < 5; ++w) {
    Ledger ledger(33);
    share_out(*tasks, 33, 5);
    tasks->work(w, [&](std::int64_t t) { ledger.note(t); });
    EXPECT_TRUE(ledger.every_task_once()) << w;
  }
}

// The order that puts the longest first, and neighbours on one worker.
TEST(Tasks, AWorkerBeginsWithItsShareInOrder) {
  const auto tasks = std::make_unique<Tasks>();
  share_out(*tasks, 10, 3);
  std::vector<std::int64_t> order;
  tasks->work(1, [&](std::int64_t t) { order.push_back(t); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 4, 5, 6, 7, 8, 9, 0, 1, 2}));
}

TEST(Tasks, AsManyWorkersAsThereMayBe) {
  const auto tasks = std::make_unique<Tasks>();
  Ledger ledger(10'000);
  share_out(*tasks, 10'000, Tasks::kMaxWorkers);
  for (int w = Tasks::kMaxWorkers; w-- > 0;)
    tasks->work(w, [&](std::int64_t t) { ledger.note(t); });
  EXPECT_TRUE(ledger.every_task_once());
}

TEST(Call, WorkersFollowWhatTheyShare) {
  const core::Problem problem;
  plan::Plan plan;
  plan.workers = 3, plan.worker_bytes = 128, plan.shared_bytes = 64;
  std::vector<std::byte> memory(std::size_t(plan.workspace_bytes()));
  const auto call = std::unique_ptr<Call>(new Call(problem, plan, memory.data()));
  const auto place = [&](const float* p) {
    return reinterpret_cast<const std::byte*>(p) - memory.data();
  };
  EXPECT_EQ(place(call->shared()), 0);
  EXPECT_EQ(place(call->of_worker(0)), 64);
  EXPECT_EQ(place(call->of_worker(2)) + plan.worker_bytes, plan.workspace_bytes());
}

}  // namespace
}  // namespace tessera::cpu
