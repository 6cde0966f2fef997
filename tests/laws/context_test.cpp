// What a context lends and borrows: callers, threads, memory, processes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "support/law.hpp"

namespace tessera::test {
namespace {

class ContextLaw : public OnEveryBackend {
 protected:
  // Several cases with enough work for five threads.
  std::vector<Inputs> large_inputs() const {
    Dice dice(test_seed());
    std::vector<Inputs> all;
    for (int n = 0; n < 4; ++n) all.emplace_back(random_case(dice, kForThreads));
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(On, ContextLaw, testing::ValuesIn(backend_names()), parameter_name);

TEST_P(ContextLaw, serves_several_callers_at_once) {
  const Backend shared = on(2);
  const std::vector<Inputs> inputs = large_inputs();
  std::vector<Outputs> alone;
  for (const Inputs& in : inputs) alone.push_back(run(shared, in));
  std::atomic<int> different = 0;
  const auto caller = [&](std::size_t first) {
    for (std::size_t n = 0; n < 2 * inputs.size(); ++n) {
      const std::size_t which = (first + n) % inputs.size();
      Outputs got(inputs[which].of);
      run(shared, describe(inputs[which], got), got);
      if (!same_bits(got, alone[which])) ++different;
    }
  };
  std::vector<std::thread> callers;
  for (std::size_t n = 0; n < 4; ++n) callers.emplace_back(caller, n);
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(different, 0) << this_test();
}

// ---- Threads of a host application ----

struct Host {
  int calls = 0, bodies = 0;
  bool concurrent = false;
};

// The last worker first; each on a thread of its own, or all on the caller's.
void lend_threads(void* user, std::int32_t workers, void (*body)(void*, std::int32_t),
                  void* argument) {
  auto& host = *static_cast<Host*>(user);
  ++host.calls;
  host.bodies += workers;
  std::vector<std::thread> threads;
  for (std::int32_t w = workers - 1; w >= 0; --w) {
    if (host.concurrent)
      threads.emplace_back(body, argument, w);
    else
      body(argument, w);
  }
  for (std::thread& t : threads) t.join();
}

TEST_P(ContextLaw, runs_on_the_threads_of_a_host_application) {
  for (const bool concurrent : {false, true}) {
    Host host{.concurrent = concurrent};
    tessera_context_config config = config_of(GetParam(), 3);
    config.executor = {lend_threads, &host};
    const Context context(config);
    for (const Inputs& in : large_inputs())
      EXPECT_TRUE(same_bits(run(context.as(GetParam()), in), run(on(), in))) << this_test();
    if (on().is_reference()) continue;
    EXPECT_GT(host.calls, 0);
    EXPECT_GT(host.bodies, host.calls);
  }
}

// ---- Memory of a host application ----

struct Lender {
  std::mutex mutex{};
  std::map<void*, std::uint64_t> lent{};
  std::uint64_t most = 0, now = 0, misaligned = 0, unknown = 0;
  bool empty_handed = false;
};

void* lend(void* user, std::uint64_t bytes, std::uint64_t alignment) {
  auto& lender = *static_cast<Lender*>(user);
  if (lender.empty_handed) return nullptr;
  const std::lock_guard lock(lender.mutex);
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  lender.lent[memory] = bytes;
  lender.now += bytes;
  lender.most = std::max(lender.most, lender.now);
  return memory;
}

void take_back(void* user, void* memory, std::uint64_t bytes) {
  auto& lender = *static_cast<Lender*>(user);
  const std::lock_guard lock(lender.mutex);
  const auto found = lender.lent.find(memory);
  if (found == lender.lent.end() || found->second != bytes) {
    ++lender.unknown;
    return;
  }
  lender.now -= bytes;
  lender.lent.erase(found);
  std::free(memory);
}

TEST_P(ContextLaw, takes_its_scratch_from_the_host_and_gives_all_back) {
  for (const int threads : kThreadCounts) {
    Lender lender;
    {
      tessera_context_config config = config_of(GetParam(), threads);
      config.allocator = {lend, take_back, &lender};
      const Context context(config);
      for (const Inputs& in : large_inputs())
        EXPECT_TRUE(same_bits(run(context.as(GetParam()), in), run(on(), in))) << this_test();
    }
    EXPECT_EQ(lender.lent.size(), 0u) << "not given back";
    EXPECT_EQ(lender.unknown, 0u) << "given back, but never lent, or with another size";
    if (!on().is_reference()) {
      EXPECT_GT(lender.most, 0u);
    }
  }
}

TEST_P(ContextLaw, says_out_of_memory_where_the_host_has_none) {
  if (on().is_reference()) GTEST_SKIP() << "the reference takes no scratch from the host";
  Lender lender{.empty_handed = true};
  tessera_context_config config = config_of(GetParam(), 2);
  config.allocator = {lend, take_back, &lender};
  tessera_context* context = nullptr;
  tessera_error error = tessera_error_default();
  tessera_status status = tessera_context_create(&config, &context, &error);
  const Inputs in = large_inputs().front();
  Outputs got(in.of);
  if (status == TESSERA_OK) {
    run({GetParam(), 2, context}, describe(in, got), got);
    status = got.status;
    error.status = got.status;
    EXPECT_NE(got.message, "");
  }
  tessera_context_destroy(context);
  EXPECT_EQ(status, TESSERA_OUT_OF_MEMORY) << error.message << got.message;
  Outputs untouched(in.of);
  EXPECT_TRUE(same_bits(got.out, untouched.out)) << "wrote before it refused";
}

// ---- Processes ----

// What the child found: 0 is right, 1 wrong bits, 2 a refusal.
int compute_in_child(const Backend& on, const Inputs& in, const Outputs& expected) {
  Outputs got(in.of);
  run(on, describe(in, got), got);
  if (got.status != TESSERA_OK) return 2;
  return same_bits(got, expected) ? 0 : 1;
}

TEST_P(ContextLaw, computes_in_the_child_after_fork) {
  const Backend forked = on(5);
  const Inputs in = large_inputs().front();
  const Outputs expected = run(forked, in);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a lock that nobody holds any more would hang for ever
    _exit(compute_in_child(forked, in, expected));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(same_bits(run(forked, in), expected)) << "the parent goes on";
}

}  // namespace
}  // namespace tessera::test
