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
  return warp->clock.knows(e) || (own && own->knows(e));
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
}

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
  for (Thread* lane : warp.lanes) {
    if (lane->own) warp.clock.join(*lane->own);
    lane->own.reset();
  }
  warp.met = warp.epoch++;
  warp.clock.learn_warp(warp.id, warp.met);
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
  while (self->warp->barrier >= 0) {
    self->warp->ready.push_back(self);
    pause();
  }
}

void Block::release(NamedBarrier& b) {
  for (Warp* w : b.waiting) {
    w->clock.join(b.gathered);
    w->barrier = -1;
    w->vote = b.vote;
  }
  b = {};
}

// As release: this lane's past is published by its next atomics. As acquire: it knows what its
// atomics have seen. Source: PTX ISA, "Memory Consistency Model", causality order.
void Block::fence() {
  Thread& me = *self;
  if (me.observed) {
    if (!me.own) me.own.emplace();
    me.own->join(*me.observed);
  }
  Clock& out = me.published.emplace(me.warp->clock);
  if (me.own) out.join(*me.own);
  out.learn(me.now());
  ++me.warp->epoch;
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
  Thread& t = threads_[grid_.random() % threads_.size()];
  if (t.copies.empty()) return;
  Copy& c = t.copies[grid_.random() % t.copies.size()];
  if (!c.done) land(c);
}

// ---- The end ----

void Block::check_exit(const Thread& thread) const {
  if (!thread.copies.empty())
    report({"exit", thread.where.site}, "ends without waiting for its cp.async");
}

std::string Block::waiting() const {
  std::map<std::string, std::pair<int, int>> all;  // what -> how many, and the first
  for (const Thread& t : threads_) {
    if (t.fiber->ended()) continue;
    std::string what =
        std::string(t.role) + " waits in " + t.where.word + " at " + place_of(t.where.site);
    const Warp& w = *t.warp;
    if (w.barrier >= 0) {
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
