#include "cpu/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "cpu/call.hpp"
#include "support/no_memory.hpp"
#include "unit/cpu/calls.hpp"
#include "unit/cpu/host.hpp"

namespace tessera::test {
namespace {

using cpu::Engine;
using cpu::Executor;
using plan::Backend::kCpu;
using plan::Backend::kStandard;

// ---- Threads of the host, lent in every way that the table allows ----

void in_order(void*, std::int32_t workers, Executor::Body body, void* argument) {
  for (std::int32_t w = 0; w < workers; ++w) body(argument, w);
}
void in_reverse(void*, std::int32_t workers, Executor::Body body, void* argument) {
  for (std::int32_t w = workers; w-- > 0;) body(argument, w);
}
void on_fresh_threads(void*, std::int32_t workers, Executor::Body body, void* argument) {
  std::vector<std::thread> threads;
  for (std::int32_t w = 0; w < workers; ++w) threads.emplace_back(body, argument, w);
  for (std::thread& t : threads) t.join();
}

Engine::Options lent(decltype(Executor::parallel_for) parallel_for, void* user = nullptr) {
  Engine::Options options = options_for(5);
  options.executor = {parallel_for, user};
  return options;
}

// The case whose plan gives each of five threads something to do.
struct Subject {
  explicit Subject(std::uint64_t seed = 1) : inputs(case_for_threads(seed)) {}

  Outputs right(plan::Backend backend = kCpu) const {
    Engine alone(options_for(1));
    return run(alone, inputs, backend);
  }
  Inputs inputs;
};

TEST(Engine, TheSubjectIsWorkForFive) {
  const Subject subject;
  Engine engine(options_for(5));
  Outputs outputs(subject.inputs.of);
  const core::Problem problem = problem_of(subject.inputs, outputs);
  EXPECT_EQ(plan::make_plan(problem, kCpu, engine.device()).workers, 5);
  EXPECT_EQ(plan::make_plan(problem, kStandard, engine.device()).workers, 5);
  EXPECT_TRUE(agree(subject.right(), define(subject.inputs), subject.inputs, named(engine)));
}

TEST(Engine, SameBitsOnAnyNumberOfThreads) {
  const Subject subject;
  for (const plan::Backend backend : {kCpu, kStandard}) {
    const Outputs one = subject.right(backend);
    for (const int threads : {2, 3, 5}) {
      Engine engine(options_for(threads));
      for (int again = 0; again < 5; ++again)
        ASSERT_TRUE(same_bits(run(engine, subject.inputs, backend), one)) << threads << " threads";
    }
  }
}

TEST(Engine, SameBitsOnThreadsOfTheHost) {
  const Subject subject;
  for (const auto parallel_for : {in_order, in_reverse, on_fresh_threads}) {
    Engine engine(lent(parallel_for));
    for (const plan::Backend backend : {kCpu, kStandard})
      EXPECT_TRUE(same_bits(run(engine, subject.inputs, backend), subject.right(backend)));
  }
}

TEST(Engine, TheHostIsAskedForThePlannedWorkersOnce) {
  struct Asked {
    int calls = 0;
    std::int32_t workers = 0;
  } asked;
  const auto count = [](void* user, std::int32_t workers, Executor::Body body, void* argument) {
    auto& a = *static_cast<Asked*>(user);
    ++a.calls, a.workers = workers;
    in_order(user, workers, body, argument);
  };
  Engine engine(lent(count, &asked));
  run(engine, Subject().inputs);
  EXPECT_EQ(asked.calls, 1);
  EXPECT_EQ(asked.workers, 5);
  run(engine, Subject().inputs, kStandard);
  EXPECT_EQ(asked.calls, 4) << "standard attention has three phases";
}

TEST(Engine, ThreadsBeyondTheMostAreNotPlanned) {
  const Engine engine(options_for(100'000));
  EXPECT_EQ(engine.device().threads, cpu::Tasks::kMaxWorkers);
}

TEST(Engine, NothingToDoIsNotDone) {
  Host host;
  Engine::Options options = options_for(2);
  options.allocator = host.allocator();
  Engine engine(options);
  Case c;
  c.batch = 0;
  run(engine, Inputs(c));
  EXPECT_EQ(host.allocations(), 0);
}

// ---- Several callers ----

TEST(Engine, SeveralThreadsEachGetTheirAnswer) {
  Engine engine(options_for(3));
  const plan::Backend backends[] = {kCpu, kStandard, kCpu, kCpu};
  std::vector<Subject> subjects;
  std::vector<Outputs> right;
  for (std::size_t n = 0; n < 4; ++n)
    right.push_back(subjects.emplace_back(n + 1).right(backends[n]));
  EXPECT_FALSE(same_bits(right[2], right[3]));
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (std::size_t n = 0; n < subjects.size(); ++n)
    callers.emplace_back([&, n] {
      for (int again = 0; again < 6; ++again)
        wrong += same_bits(run(engine, subjects[n].inputs, backends[n]), right[n]) ? 0 : 1;
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

// A host that keeps the first caller until it is told to go on.
struct Gate {
  static void parallel_for(void* user, std::int32_t workers, Executor::Body body, void* argument) {
    auto& gate = *static_cast<Gate*>(user);
    ++gate.entered;
    gate.entered.notify_all();
    gate.opened.wait();
    in_order(nullptr, workers, body, argument);
  }

  std::atomic<int> entered{0};
  std::promise<void> open{};
  std::shared_future<void> opened = open.get_future().share();
};

TEST(Engine, ASecondCallerDoesNotWaitForTheFirst) {
  Gate gate;
  Engine engine(lent(Gate::parallel_for, &gate));
  const Subject first(1), second(2);
  const auto start = [&](const Subject& subject) {
    return std::async(std::launch::async, [&] { return run(engine, subject.inputs); });
  };
  std::future<Outputs> blocked = start(first);
  gate.entered.wait(0);
  std::future<Outputs> free = start(second);
  EXPECT_EQ(free.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(gate.entered, 1) << "the second caller works alone";
  EXPECT_EQ(blocked.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  gate.open.set_value();
  EXPECT_TRUE(same_bits(free.get(), second.right()));
  EXPECT_TRUE(same_bits(blocked.get(), first.right()));
  run(engine, second.inputs);
  EXPECT_EQ(gate.entered, 2) << "the threads are free again";
}

// ---- Memory ----

TEST(Engine, TheWorkspaceIsThePlansAndIsKept) {
  Host host;
  Engine::Options options = options_for(2);
  options.allocator = host.allocator();
  {
    Engine engine(options);
    const Subject subject;
    Outputs outputs(subject.inputs.of);
    const core::Problem problem = problem_of(subject.inputs, outputs);
    const plan::Plan plan = plan::make_plan(problem, kCpu, engine.device());
    for (int again = 0; again < 3; ++again) engine.run(problem, plan);
    EXPECT_EQ(host.allocations(), 1);
    EXPECT_EQ(host.live_bytes(), std::uint64_t(plan.workspace_bytes()));
  }
  EXPECT_EQ(host.live(), 0u);
  EXPECT_TRUE(host.polite());
}

TEST(Engine, LentWorkspaceIsUsedInstead) {
  Host host;
  Engine::Options options = options_for(2);
  options.allocator = host.allocator();
  host.refuse_above(0);
  Engine engine(options);
  const Subject subject;
  Outputs outputs(subject.inputs.of);
  const core::Problem problem = problem_of(subject.inputs, outputs);
  const plan::Plan plan = plan::make_plan(problem, kCpu, engine.device());
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory(std::size_t(plan.workspace_bytes() / 64));
  engine.run(problem, plan, memory.data());
  EXPECT_TRUE(same_bits(outputs, subject.right()));
}

TEST(Engine, NoMemoryReachesTheCallerAndTheNextCallWorks) {
  Host host;
  Engine::Options options = options_for(2);
  options.allocator = host.allocator();
  Engine engine(options);
  const Subject subject;
  host.refuse_above(64);
  try {
    run(engine, subject.inputs);
    ADD_FAILURE() << "a call without memory";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.status(), core::Status::kOutOfMemory);
  }
  host.refuse_above(1 << 30);
  EXPECT_TRUE(same_bits(run(engine, subject.inputs), subject.right()));
}

// ---- Failures of workers and hosts ----

// Values that send every row down the careful path, which allocates.
Inputs careful_inputs() {
  Inputs inputs = Subject().inputs;
  inputs.v.fill([](const Index4&) { return NAN; });
  return inputs;
}

TEST(Engine, AFailureOfWorkersReachesTheCaller) {
  if (!NoMemory::possible()) GTEST_SKIP() << "operator new is not ours";
  const Inputs careful = careful_inputs();
  const Subject subject;
  for (const auto parallel_for :
       {decltype(Executor::parallel_for)(nullptr), decltype(Executor::parallel_for)(in_reverse),
        decltype(Executor::parallel_for)(on_fresh_threads)}) {
    Engine engine(lent(parallel_for));
    EXPECT_TRUE(same_bits(run(engine, subject.inputs), subject.right()));  // starts the threads
    Outputs outputs(careful.of);
    const core::Problem problem = problem_of(careful, outputs);
    const plan::Plan plan = plan::make_plan(problem, kCpu, engine.device());
    bool refused = false;
    // Fresh threads need memory to start; only the kernels shall find none.
    const NoMemory none(core::size_of(DType::kFloat64) * problem.dim);
    try {
      engine.run(problem, plan);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    none.end();
    EXPECT_TRUE(refused);
    EXPECT_TRUE(same_bits(run(engine, subject.inputs), subject.right()));
  }
}

TEST(Engine, AFailureOfTheHostReachesTheCaller) {
  bool broken = true;
  const auto fail_at_first = [](void* user, std::int32_t workers, Executor::Body body,
                                void* argument) {
    if (*static_cast<bool*>(user)) throw std::runtime_error("the host has no threads");
    in_order(nullptr, workers, body, argument);
  };
  Engine engine(lent(fail_at_first, &broken));
  const Subject subject;
  EXPECT_THROW(run(engine, subject.inputs), std::runtime_error);
  broken = false;
  EXPECT_TRUE(same_bits(run(engine, subject.inputs), subject.right()));
}

}  // namespace
}  // namespace tessera::test
