// What a child of fork() computes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "unit/cpu/calls.hpp"

namespace tessera::test {
namespace {

using cpu::Engine;

#if defined(__has_feature)
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

// Runs f in a child; its exit code, or 128 + the signal that ended it: SIGALRM if it hangs.
template <class F> int in_child(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(f());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// 0 where the system does not say.
int threads_of_this_process() {
  const std::filesystem::path tasks = "/proc/self/task";
  if (!std::filesystem::exists(tasks)) return 0;
  return int(std::distance(std::filesystem::directory_iterator(tasks), {}));
}

class Fork : public testing::Test {
 protected:
  Fork() : inputs(case_for_threads()), right(run(engine, inputs)) {}

  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer does not follow a fork with threads";
  }

  int computes_right() { return same_bits(run(engine, inputs), right) ? 0 : 1; }

  Engine engine{options_for(3)};
  Inputs inputs;
  Outputs right;
};

TEST_F(Fork, TheChildHasThreadsOfItsOwn) {
  const int before = threads_of_this_process();
  const auto child = [&] {
    for (int n = 0; n < 3; ++n)
      if (computes_right() != 0) return 1;
    return threads_of_this_process() == before ? 0 : 2;
  };
  EXPECT_EQ(in_child(child), 0);
  EXPECT_EQ(computes_right(), 0) << "the parent goes on";
}

TEST_F(Fork, AlsoWhileTheParentComputes) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int n = 0; n < 2; ++n)
    callers.emplace_back([&] {
      while (!stop) run(engine, inputs);
    });
  for (int n = 0; n < 10; ++n) EXPECT_EQ(in_child([&] { return computes_right(); }), 0) << n;
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(computes_right(), 0);
}

TEST_F(Fork, AlsoInAGrandchildAndManyThreadsOfIt) {
  const auto grandchild = [&] {
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int n = 0; n < 3; ++n) callers.emplace_back([&] { wrong += computes_right(); });
    for (std::thread& caller : callers) caller.join();
    return wrong.load();
  };
  EXPECT_EQ(in_child([&] { return in_child(grandchild) + computes_right(); }), 0);
}

// The engine of a parent can be ended in the child: its threads are not waited for.
TEST_F(Fork, TheChildMayEndAnEngineThatItUsed) {
  auto mine = std::make_unique<Engine>(options_for(3));
  run(*mine, inputs);
  const auto child = [&] {
    const bool good = same_bits(run(*mine, inputs), right);
    mine.reset();
    return good ? 0 : 1;
  };
  EXPECT_EQ(in_child(child), 0);
}
TEST_F(Fork, TheChildMayEndAnEngineThatItNeverUsed) {
  auto mine = std::make_unique<Engine>(options_for(3));
  run(*mine, inputs);
  const auto child = [&] {
    mine.reset();
    return 0;
  };
  EXPECT_EQ(in_child(child), 0);
}

}  // namespace
}  // namespace tessera::test
