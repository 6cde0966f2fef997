// A grid of blocks on a software SM: who runs next, and the global memory that they share.
#pragma once
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "emulator/block.hpp"
#include "emulator/trace.hpp"

namespace tessera::emulator {

struct Launch {
  Index3 grid{1, 1, 1};
  int threads = 32;
  u32 shared_bytes = 0;
  u64 seed = 1;      // of the schedule and of when copies land
  int resident = 3;  // blocks that run at a time, or one cluster
  int cluster = 1;   // blocks of a cluster, neighbours along x
  Trace* trace = nullptr;
};

// What a kernel may touch. Addresses beyond it are out of bounds.
class GlobalMemory {
 public:
  // Read-only memory, all of it defined.
  void input(const std::string& name, const void* data, std::size_t bytes);
  // Memory that the kernel writes; `defined`: it may read it first.
  void output(const std::string& name, void* data, std::size_t bytes, bool defined = false);

 private:
  friend class Grid;
  struct Buffer {
    std::string name;
    const std::byte* data;
    std::size_t bytes;
    bool writable;
    History history;
    std::map<std::size_t, Clock> atomics;  // what was published at a place
  };
  Buffer* find(const void* at);

  std::deque<Buffer> buffers_;
  Buffer* last_ = nullptr;
};

struct Statistics {
  u64 steps = 0;  // turns of warps
};

class Grid {
 public:
  Grid(const Launch& launch, GlobalMemory& memory, std::function<void()> kernel);

  // Runs every block to its end, or throws the first Violation.
  Statistics run();

  const Launch& launch() const { return launch_; }
  u64 random() { return random_(); }
  u64 now() const { return statistics_.steps; }
  void trace(const Trace::Span& span) const {
    if (launch_.trace != nullptr) [[unlikely]]
      launch_.trace->add(span, now());
  }

  // Actors beside the warps: whatever ends on its own time.
  u32 add_actor(const std::string& name);
  void free_actor(u32 actor);
  u32 last_epoch(u32 actor) const { return actors_[actor - first_actor_].last; }
  void set_last_epoch(u32 actor, u32 epoch) { actors_[actor - first_actor_].last = epoch; }

  void read_global(const void* from, std::size_t bytes, const Access& access);
  void write_global(const void* to, std::size_t bytes, const Access& access);
  // Checks an atomic and exchanges what is known there; the schedule may turn before it.
  void touch_atomic(void* at, std::size_t bytes, Where where);

  std::string name_of(u32 thread, Site site) const;

 private:
  void admit();
  void admit_cluster();
  bool land_any();
  Warp* choose();
  void give_turn(Warp& warp);
  void run_thread(Thread& thread);
  void retire();
  [[noreturn]] void report_deadlock() const;
  GlobalMemory::Buffer& buffer_of(const void* at, const Access& access, const char* verb);

  Launch launch_;
  GlobalMemory& memory_;
  std::function<void()> body_;  // the kernel, and what ends a thread
  std::mt19937_64 random_;
  bool by_priority_;  // else every ready warp is as likely as another
  u64 lateness_;      // a copy lands, on average, after so many turns
  int next_block_ = 0;
  struct Actor {
    std::string name;
    u32 last = 0;  // epoch
  };
  std::vector<Actor> actors_;
  std::vector<u32> free_actors_;
  u32 first_actor_;
  std::list<Cluster> clusters_;
  std::list<Block> resident_;
  std::vector<std::deque<Fiber>*> free_stacks_;
  std::map<const Block*, std::deque<Fiber>*> stacks_of_;
  std::exception_ptr error_;
  Statistics statistics_;
};

// Runs a kernel; it finds everything else through the words of <isa/...>.
Statistics launch(const Launch& how, GlobalMemory& memory, const std::function<void()>& kernel);

}  // namespace tessera::emulator
