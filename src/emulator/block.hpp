// The threads of a block: warps whose lanes meet at collective words, named barriers between warps,
// and what each of them knows of the others.
#pragma once
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/types.cuh"
#include "emulator/clock.hpp"
#include "emulator/cluster.hpp"
#include "emulator/copy_engine.hpp"
#include "emulator/fiber.hpp"
#include "emulator/history.hpp"
#include "emulator/mbarrier.hpp"
#include "emulator/report.hpp"
#include "emulator/warpgroup.hpp"

namespace tessera::emulator {

using device::Index3;

class Block;
class Grid;
struct Thread;
struct Warp;

// The running thread.
extern constinit thread_local Thread* self;

// A copy of 16 bytes on its way to shared memory.
struct Copy {
  u32 to = 0;
  const void* from = nullptr;
  u32 bytes = 0;
  u32 group = 0;
  bool done = false;  // the data are there, whether anybody knows it or not
};

struct Thread {
  u32 id = 0;     // in the grid
  int index = 0;  // in the block
  Warp* warp = nullptr;
  Block* block = nullptr;
  Fiber* fiber = nullptr;
  const char* role = "thread";
  Where where{"the start", {}};  // what it said last

  std::vector<Copy> copies;
  u32 groups = 0;  // committed so far
  std::unique_ptr<BulkStores> stores;

  // What this lane alone knows; what it has published; what atomics have shown it.
  std::optional<Clock> own, published, observed;
  std::vector<Phase> phases;  // of mbarriers that it has waited for

  const Place* place = nullptr;  // where it waits, if not for its warp

  int lane() const { return index % 32; }
  Event now() const;
  bool knows(Event e) const;
  bool knows_behind_fence(Event e) const;
  void learn(const Phase& phase);
};

// 32 lanes that say one word together.
struct Meeting {
  const char* word = nullptr;
  std::array<void*, 32> arguments{};
  int arrived = 0;
  u64 generation = 0;
};

struct NamedBarrier {
  int expected = 0, arrived = 0;
  bool vote = false;
  Clock gathered;
  std::vector<Warp*> waiting;
};

struct Warp {
  u32 id = 0;  // in the grid
  std::array<Thread*, 32> lanes{};
  std::vector<Thread*> ready;
  Meeting meeting;
  int barrier = -1;   // where it waits
  bool vote = false;  // what the last barrier said
  int ended = 0;
  u32 epoch = 1, met = 0;  // all lanes are in order up to epoch `met`
  Clock clock;
  u64 priority = 0;
  int registers = 0;        // of a thread
  u32 done = 0;             // wgmmas that it knows to be complete
  std::vector<u32> groups;  // wgmmas issued when each of its groups was committed
  u64 cluster_phase = 0;    // of the cluster's barrier, in which it arrived last
  bool cluster_arrived = false;

  bool can_run() const { return barrier < 0 && !ready.empty(); }
};

// What the warps of a block share and give each other.
struct RegisterPool : Place {
  int free = 0;  // for each thread of a warp
  std::string describe(const Thread& thread) const override;
};

class Block {
 public:
  static constexpr u32 kSharedBase = 1024;    // where dynamic shared memory begins on silicon
  static constexpr int kWholeWarpgroup = 16;  // of Warp::barrier: it waits for its warpgroup

  Block(Grid& grid, Index3 at, u32 first_warp);
  ~Block();

  // Puts the threads onto fibers.
  void start(const std::function<void()>& body, std::deque<Fiber>& fibers);
  bool ended() const;
  int size() const { return int(threads_.size()); }
  Index3 at() const { return at_; }
  Grid& grid() const { return grid_; }
  std::deque<Warp>& warps() { return warps_; }
  std::deque<Thread>& threads() { return threads_; }
  const Thread* find(u32 thread) const;  // by its number in the grid

  // The lanes of the running warp meet: the last to come calls last(arguments of all lanes).
  template <class Args, class Last> void meet(Where where, Args& args, Last last);
  // The same for the four warps of a warpgroup.
  template <class Args, class Last> void meet_warpgroup(Where where, Args& args, Last last);
  void sync_warp(Where where);
  bool elect(Where where);
  void set_registers(int count, bool take, Where where);
  struct Arrival {
    int id, threads;
    bool wait;
    bool vote = false;
  };
  void sync(Arrival arrival, Where where);
  void fence();
  // What an atomic at a place with this clock publishes and observes.
  void exchange(Clock& place);
  // As release at a place that others acquire: all that this lane did and knows.
  void publish(Clock& place);
  void fence_async();
  // What all lanes of a warp have learnt, the warp knows.
  static void settle(Warp& warp);

  void write(u32 address, const void* from, u32 bytes, Where where);
  void read(u32 address, void* to, u32 bytes, Where where);
  void read_as(Thread& lane, u32 address, void* to, Where where);  // 16 bytes

  void copy(Copy copy, Where where);
  void commit();
  void wait_copies(u32 pending, Where where);
  void land_some();  // of the copies under way, in random order
  void check_exit(Thread& thread);

  // The parts that work on their own time.
  Mbarriers mbarriers{*this};
  CopyEngine engine{*this};
  Warpgroup& warpgroup();  // of the running thread
  Cluster* cluster = nullptr;
  // The block whose shared memory an address means, and the address there.
  struct Shared {
    Block& block;
    u32 address;
  };
  Shared locate(u32 address, Where where);
  u32 remote_address(u32 mine, int rank, Where where) const;
  std::byte* bytes(u32 address) { return shared_.data() + (address - kSharedBase); }
  History& history() { return history_; }
  // An actor of the grid whose number is free again when this block has gone.
  u32 add_actor(const std::string& name);
  // A thread of another block touches this one's shared memory: this one must outlive it.
  void note_visit(const Thread& visitor, Where where);

  // This thread waits until somebody wakes those that wait there.
  void park(Place& place, Where where);
  static void wake(Place& place);

  [[noreturn]] void report(Where where, const std::string& what) const;
  std::string name_of(u32 thread, Site site) const;
  std::string waiting() const;  // who waits for what; nothing if nobody does

 private:
  friend struct Cluster;
  void pause();
  void order(Warp& warp);
  void release(NamedBarrier& barrier);
  void land(Copy& copy);
  void check_visits() const;

  Grid& grid_;
  Index3 at_;
  std::deque<Thread> threads_;
  std::deque<Warp> warps_;
  std::array<NamedBarrier, 16> barriers_;
  std::vector<std::byte> shared_;
  History history_;
  RegisterPool registers_;
  std::deque<Warpgroup> warpgroups_;
  std::vector<u32> actors_;
  struct Visit {
    Event event;
    Where where;
  };
  std::map<u32, Visit> visits_;  // the last of each thread of other blocks
};

template <class Args, class Last> void Block::meet(Where where, Args& args, Last last) {
  Thread& me = *self;
  Warp& warp = *me.warp;
  Meeting& m = warp.meeting;
  me.where = where;
  if (warp.ended > 0) report(where, "says it alone: other lanes of the warp have ended");
  if (m.arrived == 0) m.word = where.word;
  if (m.word != where.word)
    report(where, std::string("the warp has diverged: other lanes say ") + m.word);
  m.arguments[std::size_t(me.lane())] = &args;
  if (++m.arrived < 32) {
    const u64 mine = m.generation;
    while (m.generation == mine) pause();
    return;
  }
  m.arrived = 0;
  last(reinterpret_cast<Args**>(m.arguments.data()));
  ++m.generation;
  for (Thread* lane : warp.lanes)
    if (lane != &me) warp.ready.push_back(lane);
}

template <class Args, class Last> void Block::meet_warpgroup(Where where, Args& args, Last last) {
  if (std::size_t(self->index) / 128 * 4 + 4 > warps_.size())
    report(where, "its warpgroup has fewer than four warps");
  Warpgroup& group = warpgroup();
  group.arguments[std::size_t(self->index % 128)] = &args;
  meet(where, args, [&](Args**) {
    if (group.arrived == 0) group.word = where.word;
    if (group.word != where.word)
      report(where, std::string("the warpgroup has diverged: other warps say ") + group.word);
    self->warp->barrier = kWholeWarpgroup;
    if (++group.arrived < 4) return;
    group.arrived = 0;
    last(reinterpret_cast<Args**>(group.arguments.data()));
    for (Warp* w : group.warps) w->barrier = -1;
  });
  while (self->warp->barrier >= 0) {
    self->warp->ready.push_back(self);
    pause();
  }
}

}  // namespace tessera::emulator
