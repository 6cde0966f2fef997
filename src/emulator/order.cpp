// What threads know of each other, and the words that hand it on.
#include "emulator/block.hpp"

#include <algorithm>

#include "emulator/grid.hpp"

namespace tessera::emulator {

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

}  // namespace tessera::emulator
