// Threads that wait, and what they wait for.
#include "emulator/block.hpp"

#include <map>

#include "emulator/grid.hpp"

namespace tessera::emulator {

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
