#include "cpu/pool.hpp"

#include <string>
#include <system_error>

#include "core/error.hpp"

namespace tessera::cpu {
namespace {

// About 40 us: a round often follows the last one at once, and waking a sleeper takes 50 us.
constexpr int kSpins = 4000;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Waits until value is no longer `old`: spins, yielding at times since a real-time thread would
// otherwise starve the one it waits for, then sleeps.
std::uint32_t wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 1; i < kSpins; ++i) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    i % 256 != 0 ? pause() : std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

// A std::thread must be joined before it ends: those that did start are, if a later one does not.
Pool::Pool(int threads) {
  try {
    threads_.reserve(std::size_t(threads - 1));
    for (std::int32_t w = 1; w < threads; ++w) threads_.emplace_back([this, w] { serve(w); });
  } catch (const std::system_error&) {
    stop();
    core::fail(core::Status::kOutOfMemory,
               "the system did not start " + std::to_string(threads - 1) +
                   " threads beside the caller's; use fewer threads, or lend some (executor)");
  } catch (...) {
    stop();
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  begin_round();
  for (std::thread& t : threads_) t.join();
}

void Pool::begin_round() {
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void Pool::run(std::int32_t workers, Executor::Body body, void* argument) {
  body_ = body, argument_ = argument, workers_ = workers;
  busy_.store(std::uint32_t(threads_.size()), std::memory_order_relaxed);
  begin_round();
  body(argument, 0);
  for (std::uint32_t left = busy_.load(std::memory_order_acquire); left != 0;)
    left = wait_while(busy_, left);
}

void Pool::serve(std::int32_t worker) {
  for (std::uint32_t seen = 0;;) {
    seen = wait_while(round_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (worker < workers_) body_(argument_, worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace tessera::cpu
