#include "emulator/block.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "emulator/grid.hpp"

namespace tessera::emulator {

constinit thread_local Thread* self = nullptr;

namespace {

std::string place_of(Site site) {
  if (site.file == nullptr) return "its start";
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

}  // namespace

Event Thread::now() const { return {id, warp->epoch}; }

bool Thread::knows(Event e) const {
  if (e.thread == id) return true;
  if (e.warp() == warp->id && e.epoch <= warp->met) return true;
  if (warp->clock.knows(e) || (own && own->knows(e))) return true;
  return std::any_of(phases.begin(), phases.end(),
                     [e](const Phase& p) { return p.known->knows(e); });
}

bool Thread::knows_behind_fence(Event e) const {
  if (warp->clock.fenced.knows(e) || (own && own->fenced.knows(e))) return true;
  return std::any_of(phases.begin(), phases.end(),
                     [e](const Phase& p) { return p.known->fenced.knows(e); });
}

// A later phase of a barrier knows what the earlier ones did.
void Thread::learn(const Phase& phase) {
  for (Phase& p : phases)
    if (p.barrier == phase.barrier) {
      p = phase;
      return;
    }
  phases.push_back(phase);
}

Block::Block(Grid& grid, Index3 at, u32 first_warp)
    : grid_(grid),
      at_(at),
      threads_(std::size_t(grid.launch().threads)),
      warps_(threads_.size() / 32),
      shared_(grid.launch().shared_bytes, std::byte{0xff}),
      history_("shared memory", grid.launch().shared_bytes, false) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& t = threads_[i];
    Warp& w = warps_[i / 32];
    w.id = first_warp + u32(i / 32);
    t.id = w.id * 32 + u32(i % 32);
    t.index = int(i);
    t.warp = &w;
    t.block = this;
    w.lanes[i % 32] = &t;
    w.ready.push_back(&t);
  }
  for (Warp& w : warps_) w.priority = grid.random();
  // What a kernel is given at launch: an equal share of an SM's registers, in eights.
  const int registers = std::min(65536 / int(threads_.size()) / 8 * 8, 255);
  for (Warp& w : warps_) w.registers = registers;
  for (std::size_t g = 0; 4 * g + 3 < warps_.size(); ++g) {
    Warpgroup& group = warpgroups_.emplace_back();
    for (std::size_t i = 0; i < 4; ++i) group.warps[i] = &warps_[4 * g + i];
    group.actor = add_actor("the wgmma of warpgroup " + std::to_string(g));
    group.base = grid.last_epoch(group.actor) + 1;
  }
}

Block::~Block() {
  for (const u32 actor : actors_) grid_.free_actor(actor);
}

u32 Block::add_actor(const std::string& name) {
  return actors_.emplace_back(grid_.add_actor(name));
}

Warpgroup& Block::warpgroup() { return warpgroups_[std::size_t(self->index / 128)]; }

void Block::start(const std::function<void()>& body, std::deque<Fiber>& fibers) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].fiber = &fibers[i];
    fibers[i].start(body);
  }
}

bool Block::ended() const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [](const Thread& t) { return t.fiber->ended(); });
}

const Thread* Block::find(u32 thread) const {
  const u32 i = thread - threads_.front().id;
  return thread >= threads_.front().id && i < threads_.size() ? &threads_[i] : nullptr;
}

void Block::pause() {
  Thread* me = self;
  me->fiber->pause();
}

void Block::report(Where where, const std::string& what) const {
  std::string who =
      "block " + std::to_string(at_.x) + "," + std::to_string(at_.y) + "," + std::to_string(at_.z);
  if (self != nullptr)
    who = std::string(self->role) + " " + std::to_string(self->index) + ", " + who;
  throw Violation(std::string(where.word) + " at " + place_of(where.site) + " (" + who +
                  "): " + what);
}

std::string Block::name_of(u32 thread, Site site) const { return grid_.name_of(thread, site); }

// ---- Order ----

// All lanes of the warp know what each of them did and knows.
void Block::order(Warp& warp) {
  settle(warp);
  for (Thread* lane : warp.lanes) {
    if (lane->own) warp.clock.join(*lane->own);
    lane->own.reset();
    for (const Phase& p : lane->phases) warp.clock.join(*p.known);
    lane->phases.clear();
  }
  warp.met = warp.epoch++;
  warp.clock.learn_warp(warp.id, warp.met);
}

void Block::settle(Warp& warp) {
  const auto has = [](const Thread* lane, const Phase& phase) {
    return std::any_of(lane->phases.begin(), lane->phases.end(),
                       [&](const Phase& p) { return p.known == phase.known; });
  };
  const std::vector<Phase> of_first = warp.lanes[0]->phases;
  for (const Phase& phase : of_first) {
    if (!std::all_of(warp.lanes.begin(), warp.lanes.end(),
                     [&](const Thread* lane) { return has(lane, phase); }))
      continue;
    warp.clock.join(*phase.known);
    for (Thread* lane : warp.lanes)
      std::erase_if(lane->phases, [&](const Phase& p) { return p.known == phase.known; });
  }
}

void Block::sync_warp(Where where) {
  int nothing = 0;
  meet(where, nothing, [this](int**) { order(*self->warp); });
}

void Block::sync(Arrival arrival, Where where) {
  if (arrival.id < 0 || arrival.id > 15)
    report(where, "there is no barrier " + std::to_string(arrival.id));
  if (arrival.threads % 32 != 0)
    report(where, std::to_string(arrival.threads) + " threads are not whole warps");
  NamedBarrier& b = barriers_[std::size_t(arrival.id)];
  meet(where, arrival, [&](Arrival** all) {
    Warp& warp = *self->warp;
    for (int i = 0; i < 32; ++i)
      if (all[i]->id != arrival.id || all[i]->threads != arrival.threads)
        report(where, "the lanes of the warp name different barriers");
    if (b.arrived > 0 && b.expected != arrival.threads)
      report(where, std::to_string(arrival.threads) + " threads expected, but others expect " +
                        std::to_string(b.expected));
    b.expected = arrival.threads;
    for (int i = 0; i < 32; ++i) b.vote = b.vote || all[i]->vote;
    order(warp);
    b.gathered.join(warp.clock);
    if (arrival.wait) b.waiting.push_back(&warp);
    if (arrival.wait) warp.barrier = arrival.id;
    if ((b.arrived += 32) >= b.expected) release(b);
  });
  const u64 from = grid_.now();
  while (self->warp->barrier >= 0) {
    self->warp->ready.push_back(self);
    pause();
  }
  if (self->lane() == 0) grid_.trace({this, self->index, self->role, where, from});
}

void Block::release(NamedBarrier& b) {
  for (Warp* w : b.waiting) {
    w->clock.join(b.gathered);
    w->barrier = -1;
    w->vote = b.vote;
  }
  b = {};
}

void Block::publish(Clock& place) {
  Thread& me = *self;
  place.join(me.warp->clock);
  if (me.own) place.join(*me.own);
  for (const Phase& p : me.phases) place.join(*p.known);
  place.learn(me.now());
  ++me.warp->epoch;
}

// As release: this lane's past is published by its next atomics. As acquire: it knows what its
// atomics have seen. Source: PTX ISA, "Memory Consistency Model", causality order.
void Block::fence() {
  Thread& me = *self;
  if (me.observed) {
    if (!me.own) me.own.emplace();
    me.own->join(*me.observed);
  }
  publish(me.published.emplace());
}

// All that this lane did and knows stands behind a proxy fence from now on.
void Block::fence_async() {
  Clock known;
  publish(known);
  if (!self->own) self->own.emplace();
  self->own->fenced.join(known);
}

void Block::exchange(Clock& place) {
  Thread& me = *self;
  if (!me.observed) me.observed.emplace();
  me.observed->join(place);
  if (me.published) place.join(*me.published);
}

// ---- Shared memory ----

void Block::write(u32 address, const void* from, u32 bytes, Where where) {
  self->where = where;
  history_.write(address - kSharedBase, bytes, {*self, where});
  std::memcpy(shared_.data() + (address - kSharedBase), from, bytes);
}

void Block::read(u32 address, void* to, u32 bytes, Where where) {
  self->where = where;
  history_.read(address - kSharedBase, bytes, {*self, where});
  std::memcpy(to, shared_.data() + (address - kSharedBase), bytes);
}

void Block::read_as(Thread& lane, u32 address, void* to, Where where) {
  history_.read(address - kSharedBase, 16, {lane, where});
  std::memcpy(to, shared_.data() + (address - kSharedBase), 16);
}

// ---- cp.async ----

void Block::copy(Copy copy, Where where) {
  Thread& me = *self;
  me.where = where;
  if (copy.bytes > 16) report(where, "copies more than 16 bytes");
  if (copy.bytes > 0) grid_.read_global(copy.from, copy.bytes, {me, where, Access::kCopy});
  history_.write(copy.to - kSharedBase, 16, {me, where, Access::kCopy});
  std::memset(shared_.data() + (copy.to - kSharedBase), 0xff, 16);  // NaN until it lands
  copy.group = me.groups;
  me.copies.push_back(copy);
}

void Block::commit() { ++self->groups; }

void Block::land(Copy& copy) {
  std::byte* to = shared_.data() + (copy.to - kSharedBase);
  std::memset(to, 0, 16);
  if (copy.bytes > 0) std::memcpy(to, copy.from, copy.bytes);
  copy.done = true;
}

void Block::wait_copies(u32 pending, Where where) {
  Thread& me = *self;
  me.where = where;
  const auto waited = [&](const Copy& c) { return c.group + pending < me.groups; };
  for (Copy& c : me.copies)
    if (waited(c)) {
      if (!c.done) land(c);
      history_.landed(c.to - kSharedBase, {me, where});
    }
  std::erase_if(me.copies, waited);
}

void Block::land_some() {
  if (grid_.random() % 2 != 0 && engine.land_one()) return;
  Thread& t = threads_[grid_.random() % threads_.size()];
  if (t.copies.empty()) return;
  Copy& c = t.copies[grid_.random() % t.copies.size()];
  if (!c.done) land(c);
}

// ---- The end ----

void Block::check_exit(Thread& thread) {
  const Where exit{"exit", thread.where.site};
  if (!thread.copies.empty()) report(exit, "ends without waiting for its cp.async");
  engine.check_exit(thread);
  if (std::size_t(thread.index / 128) < warpgroups_.size() &&
      thread.warp->done < warpgroup().issued())
    report(exit, "ends without waiting for its wgmmas (wgmma.wait_group)");
  const auto others = std::count_if(threads_.begin(), threads_.end(), [&](const Thread& t) {
    return &t != &thread && !t.fiber->ended();
  });
  if (others != 0) return;
  while (engine.land_one()) {}
  engine.check_end();
  check_visits();
}

// ---- Between blocks ----

// Where a block is cited, the address says which: rank + 1 in the upper eight bits. Without them it
// is the block's own.
u32 Block::remote_address(u32 mine, int rank, Where where) const {
  self->where = where;
  if (rank < 0 || rank >= int(cluster->blocks.size()))
    report(where, "there is no rank " + std::to_string(rank) + " in a cluster of " +
                      std::to_string(cluster->blocks.size()) + " blocks");
  return (mine & 0xffffff) | u32(rank + 1) << 24;
}

Block::Shared Block::locate(u32 address, Where where) {
  if (address >> 24 == 0) return {*this, address};
  const std::size_t rank = (address >> 24) - 1;
  if (rank >= cluster->blocks.size()) report(where, "is given what is no address of the cluster");
  Block& other = *cluster->blocks[rank];
  if (&other == this) return {other, address & 0xffffff};
  if (other.ended())
    report(where, "touches shared memory of rank " + std::to_string(rank) + ", which has ended");
  other.note_visit(*self, where);
  return {other, address & 0xffffff};
}

void Block::note_visit(const Thread& visitor, Where where) {
  visits_.insert_or_assign(visitor.id, Visit{visitor.now(), where});
}

// The last thread is about to end: somebody here must know that all visitors have left.
void Block::check_visits() const {
  for (const auto& [thread, visit] : visits_)
    if (!std::any_of(threads_.begin(), threads_.end(),
                     [e = visit.event](const Thread& t) { return t.knows(e); }))
      report({"exit", self->where.site},
             "the block ends although the " + std::string(visit.where.word) + " of " +
                 name_of(thread, visit.where.site) +
                 " in the cluster may still come: a barrier of the cluster is missing");
}

// ---- Waiting ----

void Block::park(Place& place, Where where) {
  Thread& me = *self;
  me.where = where;
  me.place = &place;
  place.waiting.push_back(&me);
  pause();
  me.place = nullptr;
}

void Block::wake(Place& place) {
  for (Thread* t : place.waiting) t->warp->ready.push_back(t);
  place.waiting.clear();
}

bool Block::elect(Where where) {
  bool chosen = false;
  meet(where, chosen, [this](bool** lanes) { *lanes[grid_.launch().seed % 32] = true; });
  return chosen;
}

std::string RegisterPool::describe(const Thread&) const {
  return "the block's pool has " + std::to_string(free) + " registers for each thread of a warp";
}

void Block::set_registers(int count, bool take, Where where) {
  if (count < 24 || count > 256 || count % 8 != 0)
    report(where, std::to_string(count) + " registers: it takes a multiple of 8 from 24 to 256");
  meet(where, count, [&](int**) {
    Warp& warp = *self->warp;
    if (take ? count < warp.registers : count > warp.registers)
      report(where, "asks for " + std::to_string(count) + " registers a thread, but has " +
                        std::to_string(warp.registers));
    if (take) return;
    registers_.free += warp.registers - count;
    warp.registers = count;
    wake(registers_);
  });
  Warp& warp = *self->warp;
  while (warp.registers < count) {
    const int more = count - warp.registers;
    if (more <= registers_.free) {
      registers_.free -= more;
      warp.registers = count;
    } else {
      park(registers_, where);
    }
  }
}

std::string Block::waiting() const {
  std::map<std::string, std::pair<int, int>> all;  // what -> how many, and the first
  for (const Thread& t : threads_) {
    if (t.fiber->ended()) continue;
    std::string what =
        std::string(t.role) + " waits in " + t.where.word + " at " + place_of(t.where.site);
    const Warp& w = *t.warp;
    if (t.place != nullptr) {
      what += ": " + t.place->describe(t);
    } else if (w.barrier == kWholeWarpgroup) {
      what += ": other warps of the warpgroup have not come";
    } else if (w.barrier >= 0) {
      const NamedBarrier& b = barriers_[std::size_t(w.barrier)];
      what += ": barrier " + std::to_string(w.barrier) + " has " + std::to_string(b.arrived) +
              " of " + std::to_string(b.expected) + " threads";
    } else {
      what += ": " + std::to_string(w.meeting.arrived) + " of 32 lanes have come";
    }
    auto& entry = all.try_emplace(what, 0, t.index).first->second;
    ++entry.first;
  }
  std::string text;
  for (const auto& [what, who] : all)
    text += "\n  " + std::to_string(who.first) + " threads from " + std::to_string(who.second) +
            ": " + what;
  return text;
}

}  // namespace tessera::emulator
