#include "emulator/grid.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

namespace tessera::emulator {
namespace {

// Turns without an end are a livelock: threads that ask in a loop for what never comes.
constexpr u64 kMostSteps = 200'000'000;
constexpr u64 kLatenesses[] = {1, 20, 400, std::numeric_limits<u64>::max()};
// A warp that has had the highest priority loses it after so many turns, on average. Source:
// Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010.
constexpr u64 kTurnsOfPriority = 300;

int blocks_of(Index3 grid) { return grid.x * grid.y * grid.z; }

// Stacks, one set for each block that is resident at a time; they serve launch after launch.
std::deque<Fiber>& stacks(std::size_t set, int threads) {
  static thread_local std::deque<std::deque<Fiber>> sets;
  if (sets.size() <= set) sets.resize(set + 1);
  while (int(sets[set].size()) < threads) sets[set].emplace_back(sets[set].size());
  return sets[set];
}

}  // namespace

// ---- Global memory ----

void GlobalMemory::input(const std::string& name, const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  buffers_.push_back(
      {name, static_cast<const std::byte*>(data), bytes, false, History(name, 0, true), {}});
}

void GlobalMemory::output(const std::string& name, void* data, std::size_t bytes, bool defined) {
  if (bytes == 0) return;
  buffers_.push_back(
      {name, static_cast<const std::byte*>(data), bytes, true, History(name, bytes, defined), {}});
}

GlobalMemory::Buffer* GlobalMemory::find(const void* at) {
  const auto holds = [at](const Buffer& b) {
    return std::less_equal<>()(b.data, at) &&
           std::less<>()(at, static_cast<const void*>(b.data + b.bytes));
  };
  if (last_ != nullptr && holds(*last_)) return last_;
  const auto found = std::find_if(buffers_.begin(), buffers_.end(), holds);
  return last_ = found == buffers_.end() ? nullptr : &*found;
}

GlobalMemory::Buffer& Grid::buffer_of(const void* at, const Access& access, const char* verb) {
  access.by.where = access.where;
  GlobalMemory::Buffer* buffer = memory_.find(at);
  if (buffer == nullptr)
    access.by.block->report(access.where, std::string(verb) +
                                              " global memory that is out of bounds: no tensor "
                                              "of this launch lies there");
  return *buffer;
}

void Grid::read_global(const void* from, std::size_t bytes, const Access& access) {
  GlobalMemory::Buffer& b = buffer_of(from, access, "reads");
  const auto at = std::size_t(static_cast<const std::byte*>(from) - b.data);
  const bool is_copy = access.kind == Access::kCopy;
  const std::size_t unit = is_copy ? 16 : access.kind == Access::kAsync ? 2 : bytes;
  if (std::uintptr_t(from) % unit != 0)
    access.by.block->report(
        access.where, "the address in " + b.name + " is not a multiple of " + std::to_string(unit));
  if (b.writable)
    b.history.read(at, bytes, {access.by, access.where, is_copy ? Access::kOrdinary : access.kind});
  else if (bytes > b.bytes - at)
    access.by.block->report(access.where, "reads beyond the end of " + b.name + ": out of bounds");
}

void Grid::write_global(const void* to, std::size_t bytes, const Access& access) {
  GlobalMemory::Buffer& b = buffer_of(to, access, "writes");
  if (!b.writable)
    access.by.block->report(access.where, "writes " + b.name + ", which is an input");
  b.history.write(std::size_t(static_cast<const std::byte*>(to) - b.data), bytes, access);
}

void Grid::touch_atomic(void* at, std::size_t bytes, Where where) {
  Thread& me = *self;
  me.where = where;
  me.warp->ready.push_back(&me);  // others may come first
  me.fiber->pause();
  const Access access{me, where, Access::kAtomic};
  read_global(at, bytes, access);
  write_global(at, bytes, access);
  GlobalMemory::Buffer& b = *memory_.find(at);
  me.block->exchange(b.atomics[std::size_t(static_cast<std::byte*>(at) - b.data)]);
}

// ---- The schedule ----

Grid::Grid(const Launch& launch, GlobalMemory& memory, std::function<void()> kernel)
    : launch_(launch),
      memory_(memory),
      random_(launch.seed * 7919),
      by_priority_(launch.seed % 2 == 0),
      lateness_(kLatenesses[random_() % std::size(kLatenesses)]),
      first_actor_(u32(blocks_of(launch.grid)) * u32(launch.threads / 32)) {
  if (launch.grid.x % launch.cluster != 0)
    throw Violation("launch: " + std::to_string(launch.grid.x) +
                    " blocks along x are not whole clusters of " + std::to_string(launch.cluster));
  for (int i = std::max(std::min(launch.resident, blocks_of(launch.grid)), launch.cluster);
       i-- > 0;)
    free_stacks_.push_back(&stacks(std::size_t(i), launch.threads));
  body_ = [this, call = std::move(kernel)] {
    try {
      call();
      self->block->check_exit(*self);
      if (++self->warp->ended == 32) self->block->cluster->end_phase_if_due();
    } catch (...) {
      error_ = std::current_exception();
    }
  };
}

void Grid::admit() {
  while (next_block_ < blocks_of(launch_.grid) && int(free_stacks_.size()) >= launch_.cluster)
    admit_cluster();
}

void Grid::admit_cluster() {
  const Index3 g = launch_.grid;
  const int warps = launch_.threads / 32;
  Cluster& cluster = clusters_.emplace_back();
  for (int rank = 0; rank < launch_.cluster; ++rank) {
    const int i = next_block_++;
    Block& block = resident_.emplace_back(*this, Index3{i % g.x, i / g.x % g.y, i / g.x / g.y},
                                          u32(i) * u32(warps));
    block.cluster = &cluster;
    cluster.blocks.push_back(&block);
    stacks_of_[&block] = free_stacks_.back();
    block.start(body_, *free_stacks_.back());
    free_stacks_.pop_back();
  }
}

Warp* Grid::choose() {
  Warp* chosen = nullptr;
  u64 seen = 0;
  for (Block& block : resident_)
    for (Warp& w : block.warps()) {
      if (!w.can_run()) continue;
      ++seen;
      if (chosen == nullptr ||
          (by_priority_ ? w.priority > chosen->priority : random() % seen == 0))
        chosen = &w;
    }
  if (chosen != nullptr && by_priority_ && random() % kTurnsOfPriority == 0)
    chosen->priority = random() % 1024;  // below what almost every warp began with
  return chosen;
}

// Each lane that can run does, up to its next meeting; any of them may be the first.
void Grid::give_turn(Warp& warp) {
  std::vector<Thread*> lanes;
  lanes.swap(warp.ready);
  const std::size_t first = random() % lanes.size();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (warp.barrier >= 0) {
      warp.ready.push_back(lanes[(first + i) % lanes.size()]);
      continue;
    }
    run_thread(*lanes[(first + i) % lanes.size()]);
  }
}

void Grid::run_thread(Thread& thread) {
  self = &thread;
  thread.fiber->resume();
  self = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Grid::retire() {
  const auto has_gone = [this](const Block& block) {
    if (!block.cluster->ended()) return false;
    free_stacks_.push_back(stacks_of_[&block]);
    stacks_of_.erase(&block);
    return true;
  };
  std::vector<const Block*> gone;
  for (const Block& block : resident_)
    if (has_gone(block)) gone.push_back(&block);
  std::erase_if(resident_, [&](const Block& block) {
    return std::find(gone.begin(), gone.end(), &block) != gone.end();
  });
  std::erase_if(clusters_, [&](const Cluster& cluster) {
    return std::find(gone.begin(), gone.end(), cluster.blocks.front()) != gone.end();
  });
}

Statistics Grid::run() {
  admit();
  while (!resident_.empty()) {
    Warp* warp = choose();
    if (warp == nullptr && land_any()) continue;
    if (warp == nullptr) report_deadlock();
    give_turn(*warp);
    if (lateness_ != 0 && random() % lateness_ == 0)
      std::next(resident_.begin(), std::ptrdiff_t(random() % resident_.size()))->land_some();
    if (++statistics_.steps > kMostSteps) report_deadlock();
    if (warp->ended == 32) {
      retire();
      admit();
    }
  }
  return statistics_;
}

void Grid::report_deadlock() const {
  std::string text = "deadlock: no thread can go on.";
  for (const Block& block : resident_) text += block.waiting();
  throw Violation(text);
}

// Nobody can run: what is under way ends.
bool Grid::land_any() {
  std::vector<Block*> blocks;
  for (Block& block : resident_) blocks.push_back(&block);
  const std::size_t first = random() % blocks.size();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[(first + i) % blocks.size()]->engine.land_one()) return true;
  return false;
}

u32 Grid::add_actor(const std::string& name) {
  if (free_actors_.empty()) {
    actors_.push_back({name});
    return first_actor_ + u32(actors_.size()) - 1;
  }
  const u32 actor = free_actors_.back();
  free_actors_.pop_back();
  actors_[actor - first_actor_].name = name;
  return actor;
}

void Grid::free_actor(u32 actor) { free_actors_.push_back(actor); }

std::string Grid::name_of(u32 thread, Site site) const {
  const int warps = launch_.threads / 32;
  const std::string line = site.file != nullptr ? " at line " + std::to_string(site.line) : "";
  if (thread / 32 >= first_actor_) return actors_[thread / 32 - first_actor_].name + line;
  for (const Block& block : resident_)
    if (const Thread* t = block.find(thread))
      return std::string(t->role) + " " + std::to_string(t->index) + line;
  return "a thread of block number " + std::to_string(int(thread) / 32 / warps) + line;
}

Statistics launch(const Launch& how, GlobalMemory& memory, const std::function<void()>& kernel) {
  return Grid(how, memory, kernel).run();
}

}  // namespace tessera::emulator
