#include "cpu/engine.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "cpu/call.hpp"
#include "cpu/memory.hpp"
#include "cpu/pool.hpp"
#include "cpu/unused_rows.hpp"
#include "plan/backward.hpp"
#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace tessera::cpu {
namespace {

std::int64_t process_number() {
#if __has_include(<unistd.h>)
  return ::getpid();
#else
  return 0;
#endif
}

// What belongs to one process: after fork() the child has the memory of its parent's threads and
// locks, but not the threads.
struct Crew {
  std::int64_t process = process_number();
  std::mutex mutex;  // held by the caller that has the pool
  std::optional<Pool> pool;
  Workspaces workspaces;

  explicit Crew(const Allocator& allocator) : workspaces(allocator) {}
};

const Target& find(std::string_view name) {
  for (const Target& t : target_table())
    if (name == t.name && t.present()) return t;
  core::fail(core::Status::kInvalidArgument, "no target named " + std::string(name));
}

// A workspace for the time of one call.
class Lease {
 public:
  Lease(Workspaces& from, std::uint64_t bytes) : from_(from), block_(from.take(bytes)) {}
  ~Lease() { from_.give_back(block_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  std::byte* memory() const { return block_.memory; }

 private:
  Workspaces& from_;
  Workspaces::Block block_;
};

// Half of a result may be taken for a whole one, all of it NaN may not.
void spoil(const Call& call) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const core::Problem& p = call.problem;
  if (const core::Gradients* g = call.gradients; g != nullptr)
    for (const auto* t : {&g->dq, &g->dk, &g->dv, &g->d_bias, &g->d_sink}) core::fill(*t, kNaN);
  else
    for (const auto* t : {&p.out, &p.lse}) core::fill(*t, kNaN);
}

// One phase of a call, as the threads get it. The first failure is kept for the caller.
struct Job {
  Call& call;
  Phase phase;
  std::mutex mutex{};
  std::exception_ptr error{};

  static void work(void* job, std::int32_t worker) {
    Job& j = *static_cast<Job*>(job);
    try {
      j.phase(j.call, worker);
    } catch (...) {
      const std::lock_guard lock(j.mutex);
      if (!j.error) j.error = std::current_exception();
    }
  }
};

}  // namespace

std::vector<TargetInfo> targets() {
  std::vector<TargetInfo> all;
  for (const Target& t : target_table())
    all.push_back({t.name, t.lanes, t.present(), t.preferred(), t.bfloat16});
  return all;
}

struct Engine::Inside {
  explicit Inside(const Options& given)
      : options(given),
        target(find(given.target)),
        device{target.name, target.lanes, std::min(given.threads, Tasks::kMaxWorkers),
               target.bfloat16},
        crew(new Crew(given.allocator)) {}
  ~Inside() {
    Crew* const mine = crew.load();
    if (mine->process == process_number()) delete mine;  // else its threads are not here to join
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  // The crew of this process. That of a parent is left alone: its threads and locks are not here.
  Crew& present_crew() {
    Crew* mine = crew.load(std::memory_order_acquire);
    if (mine->process == process_number()) return *mine;
    auto fresh = std::make_unique<Crew>(options.allocator);
    if (crew.compare_exchange_strong(mine, fresh.get())) return *fresh.release();
    return *mine;  // another thread of the child came first
  }

  // All workers of one phase; without a crew the caller is the only one. first(worker, workers) is
  // the first task of a share.
  template <class First> void run_phase(Crew* owner, Call& call, Phase phase, First first) {
    Job job{call, phase};
    const auto workers = std::int32_t(owner != nullptr ? call.plan.workers : 1);
    call.tasks.reset(workers, [&](int w) { return first(w, workers); });
    if (workers == 1) {
      Job::work(&job, 0);
    } else if (options.executor.parallel_for != nullptr) {
      options.executor.parallel_for(options.executor.user, workers, Job::work, &job);
    } else {
      owner->pool->run(workers, Job::work, &job);
    }
    if (!job.error) return;
    spoil(call);
    std::rethrow_exception(job.error);
  }

  // Before anything is written, since it may fail.
  void start_threads(Crew& owner) const {
    if (options.executor.parallel_for == nullptr && !owner.pool)
      owner.pool.emplace(int(device.threads));
  }

  Options options;
  const Target& target;
  plan::Device device;
  std::atomic<Crew*> crew;
};

Engine::Engine(const Options& options) : inside_(std::make_unique<Inside>(options)) {}
Engine::~Engine() = default;

const plan::Device& Engine::device() const { return inside_->device; }

// The memory and the threads of one call. A second caller does not wait for the threads: it works
// alone.
struct Engine::Turn {
  Inside& inside;
  Crew& crew;
  Lease lease;
  Call call;
  std::unique_lock<std::mutex> threads;

  Turn(Inside& engine, const core::Problem& problem, const plan::Plan& plan, void* lent)
      : inside(engine),
        crew(engine.present_crew()),
        lease(crew.workspaces, lent != nullptr ? 0 : std::uint64_t(plan.workspace_bytes())),
        call(problem, plan, lent != nullptr ? static_cast<std::byte*>(lent) : lease.memory()),
        threads(crew.mutex, std::defer_lock) {
    if (plan.workers > 1 && threads.try_lock()) inside.start_threads(crew);
  }
  // As the call is scheduled, or so many tasks that are alike.
  void run(Phase phase) {
    inside.run_phase(owner(), call, phase,
                     [this](int w, int workers) { return call.schedule.share(w, workers); });
  }
  void run(Phase phase, std::int64_t tasks) {
    if (tasks == 0) return;
    inside.run_phase(owner(), call, phase,
                     [tasks](int w, int workers) { return tasks * w / workers; });
  }
  Crew* owner() { return threads.owns_lock() ? &crew : nullptr; }
};

void Engine::run(const core::Problem& problem, const plan::Plan& plan, void* lent) {
  if (plan.tasks == 0) return;
  const Target& target = inside_->target;
  Turn turn(*inside_, problem, plan, lent);
  if (plan.kernel == plan::Kernel::kDecode) {
    turn.run(target.decode[0], plan.tasks);
    if (plan.splits == 1) return;
    return turn.run(target.decode[1], problem.batch * problem.heads * problem.queries);
  }
  if (plan.backend == plan::Backend::kCpu) return turn.run(target.forward);
  for (const Phase phase : target.standard) turn.run(phase);
}

void Engine::run_backward(const core::Problem& problem, const core::Gradients& gradients,
                          const plan::Plan& plan, void* lent) {
  const core::Gradients& g = gradients;
  const Target& target = inside_->target;
  Turn turn(*inside_, problem, plan, lent);
  turn.call.gradients = &g;
  clear_unused_rows(problem, gradients);
  if (g.dq.present() || g.dk.present() || g.dv.present()) turn.run(target.backward, plan.tasks);
  if (g.dq.present() && plan.splits > 1)
    turn.run(target.reduce_queries, problem.batch * problem.heads);
  if (g.d_bias.present())
    turn.run(target.bias,
             g.d_bias.shape[0] * g.d_bias.shape[1] * plan::bias_spans(g, plan.tile_queries));
  if (g.d_sink.present()) turn.run(target.sink, problem.heads);
}

}  // namespace tessera::cpu
