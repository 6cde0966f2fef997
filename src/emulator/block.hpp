// The threads of a block: warps whose lanes meet at collective words, named barriers between warps,
// and what each of them knows of the others.
#pragma once
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/types.cuh"
#include "emulator/clock.hpp"
#include "emulator/fiber.hpp"
#include "emulator/history.hpp"
#include "emulator/report.hpp"

namespace tessera::emulator {

using device::Index3;

class Block;
class Grid;
struct Warp;

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

  // What this lane alone knows; what it has published; what atomics have shown it.
  std::optional<Clock> own, published, observed;

  int lane() const { return index % 32; }
  Event now() const;
  bool knows(Event e) const;
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

  bool can_run() const { return barrier < 0 && !ready.empty(); }
};

class Block {
 public:
  static constexpr u32 kSharedBase = 1024;  // where dynamic shared memory begins on silicon

  Block(Grid& grid, Index3 at, u32 first_warp);

  // Puts the threads onto fibers.
  void start(const std::function<void()>& body, std::deque<Fiber>& fibers);
  bool ended() const;
  int size() const { return int(threads_.size()); }
  Index3 at() const { return at_; }
  Grid& grid() const { return grid_; }
  std::deque<Warp>& warps() { return warps_; }
  const Thread* find(u32 thread) const;  // by its number in the grid

  // The lanes of the running warp meet: the last to come calls last(arguments of all lanes).
  template <class Args, class Last> void meet(Where where, Args& args, Last last);
  void sync_warp(Where where);
  struct Arrival {
    int id, threads;
    bool wait;
    bool vote = false;
  };
  void sync(Arrival arrival, Where where);
  void fence();
  // What an atomic at a place with this clock publishes and observes.
  void exchange(Clock& place);

  void write(u32 address, const void* from, u32 bytes, Where where);
  void read(u32 address, void* to, u32 bytes, Where where);
  void read_as(Thread& lane, u32 address, void* to, Where where);  // 16 bytes

  void copy(Copy copy, Where where);
  void commit();
  void wait_copies(u32 pending, Where where);
  void land_some();  // of the copies under way, in random order
  void check_exit(const Thread& thread) const;

  [[noreturn]] void report(Where where, const std::string& what) const;
  std::string name_of(u32 thread, Site site) const;
  std::string waiting() const;  // who waits for what; nothing if nobody does

 private:
  void pause();
  void order(Warp& warp);
  void release(NamedBarrier& barrier);
  void land(Copy& copy);

  Grid& grid_;
  Index3 at_;
  std::deque<Thread> threads_;
  std::deque<Warp> warps_;
  std::array<NamedBarrier, 16> barriers_;
  std::vector<std::byte> shared_;
  History history_;
};

// The running thread.
extern constinit thread_local Thread* self;

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

}  // namespace tessera::emulator
