#include "cpu/pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace tessera::cpu {
namespace {

// Longer than a worker spins: it sleeps then.
void let_them_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }

// Not atomic on purpose: a pool orders what its workers write before what the caller reads, and
// ThreadSanitizer would say if it did not.
struct Round {
  explicit Round(int workers) : times(std::size_t(workers)), on(std::size_t(workers)) {}

  static void work(void* argument, std::int32_t worker) {
    auto& round = *static_cast<Round*>(argument);
    ++round.times.at(std::size_t(worker));
    round.on[std::size_t(worker)] = std::this_thread::get_id();
  }
  testing::AssertionResult each_once() const {
    for (std::size_t w = 0; w < times.size(); ++w)
      if (times[w] != 1)
        return testing::AssertionFailure() << "worker " << w << " ran " << times[w] << " times";
    return testing::AssertionSuccess();
  }

  std::vector<int> times;
  std::vector<std::thread::id> on;
};

testing::AssertionResult one_round(Pool& pool, int workers) {
  Round round(workers);
  pool.run(workers, Round::work, &round);
  return round.each_once();
}

TEST(Pool, EachWorkerOnceWhateverTheirNumber) {
  for (const int threads : {1, 2, 3, 5, 8}) {
    Pool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int workers = 1; workers <= threads; ++workers)
      ASSERT_TRUE(one_round(pool, workers)) << threads << " threads, " << workers << " workers";
  }
}

TEST(Pool, TheCallerIsWorkerZeroAndNoOtherShares) {
  Pool pool(4);
  Round round(4);
  pool.run(4, Round::work, &round);
  EXPECT_EQ(round.on[0], std::this_thread::get_id());
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < a; ++b) EXPECT_NE(round.on[a], round.on[b]);
}

TEST(Pool, ThousandsOfRoundsBackToBack) {
  Pool pool(3);
  for (int n = 0; n < 5000; ++n) ASSERT_TRUE(one_round(pool, 1 + n % 3)) << n;
}

// What one round writes is what the next one reads.
TEST(Pool, RoundsFollowOneAnother) {
  Pool pool(3);
  struct Sums {
    long all[3] = {};
  } sums;
  const auto add_neighbour = [](void* argument, std::int32_t w) {
    auto& s = *static_cast<Sums*>(argument);
    s.all[w] += 1 + w;
  };
  long expected[3] = {};
  for (int n = 0; n < 2000; ++n) {
    pool.run(3, add_neighbour, &sums);
    for (int w = 0; w < 3; ++w) ASSERT_EQ(sums.all[w], expected[w] += 1 + w);
  }
}

TEST(Pool, RoundsAfterSleep) {
  Pool pool(3);
  for (int n = 0; n < 100; ++n) {
    let_them_sleep();
    ASSERT_TRUE(one_round(pool, 1 + n % 3)) << n;
  }
}

// The caller is done first and sleeps until the last worker is.
TEST(Pool, TheCallerWaitsForASlowWorker) {
  Pool pool(3);
  std::atomic<int> done{0};
  const auto slowly = [](void* argument, std::int32_t w) {
    if (w > 0) std::this_thread::sleep_for(std::chrono::milliseconds(w));
    ++*static_cast<std::atomic<int>*>(argument);
  };
  for (int n = 1; n <= 20; ++n) {
    pool.run(3, slowly, &done);
    ASSERT_EQ(done, 3 * n);
  }
}

TEST(Pool, EndsWhateverItsThreadsDo) {
  for (int n = 0; n < 100; ++n) Pool unused(3);  // while they start
  for (int n = 0; n < 100; ++n) {
    Pool spinning(3);
    ASSERT_TRUE(one_round(spinning, 3));
  }
  for (int n = 0; n < 10; ++n) {
    Pool asleep(3);
    ASSERT_TRUE(one_round(asleep, 2));
    let_them_sleep();
  }
}

TEST(Pool, SeveralPoolsAtOnce) {
  std::vector<std::unique_ptr<Pool>> pools;
  for (int n = 1; n <= 4; ++n) pools.push_back(std::make_unique<Pool>(n));
  std::atomic<bool> good{true};
  std::vector<std::thread> callers;
  for (const auto& pool : pools)
    callers.emplace_back([&good, &pool] {
      for (int n = 0; n < 300; ++n)
        if (!one_round(*pool, pool->threads())) good = false;
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(good);
}

// A worker of one pool may call another pool.
TEST(Pool, OneInsideTheOther) {
  Pool outer(2), inner(2);
  struct Both {
    Pool& inner;
    Round round{2};
  } both{inner};
  outer.run(
      2,
      [](void* argument, std::int32_t w) {
        auto& b = *static_cast<Both*>(argument);
        if (w == 1) b.inner.run(2, Round::work, &b.round);
      },
      &both);
  EXPECT_TRUE(both.round.each_once());
}

}  // namespace
}  // namespace tessera::cpu
