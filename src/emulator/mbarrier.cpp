#include "emulator/mbarrier.hpp"

#include <utility>

#include "emulator/grid.hpp"

namespace tessera::emulator {
namespace {

// PTX ISA, "Mbarrier objects": limits of the counts.
constexpr int kMostArrivals = (1 << 20) - 1;
constexpr i64 kMostBytes = (1 << 20) - 1;

}  // namespace

std::string Mbarrier::name() const {
  return "mbarrier \"" + std::string(label) + "\" at byte " +
         std::to_string(address - Block::kSharedBase);
}

std::string Mbarrier::describe(const Thread&) const {
  return name() + ": phase " + std::to_string(phase) + " lacks " + std::to_string(pending) +
         " of " + std::to_string(count) + " arrivals and " + std::to_string(bytes) + " bytes";
}

void Mbarriers::init(u32 address, int arrivals, const char* label, Where where) {
  self->where = where;
  if (address % 8 != 0) block_.report(where, "the address is not a multiple of 8");
  if (arrivals < 1 || arrivals > kMostArrivals)
    block_.report(where, std::to_string(arrivals) + " arrivals: it takes 1 to 1048575");
  block_.history().settle_barrier(address - Block::kSharedBase, {*self, where});
  Mbarrier& b = barriers_.emplace_back();
  b.address = address;
  b.label = label;
  b.count = b.pending = arrivals;
  b.actor = block_.add_actor("a copy for " + b.name());
  b.first = block_.grid().last_epoch(b.actor) + 1;
  b.created = self->now();
}

void Mbarriers::init_fence() {
  for (Mbarrier& b : barriers_) b.fenced = b.fenced || b.created.thread == self->id;
}

Mbarrier& Mbarriers::at(u32 address, Where where) {
  self->where = where;
  for (Mbarrier& b : barriers_)
    if (b.address == address) {
      if (!self->knows(b.created))
        block_.report(where, b.name() + ": nothing orders its init before this");
      return b;
    }
  block_.report(
      where, "no mbarrier was initialised at byte " + std::to_string(address - Block::kSharedBase));
}

void Mbarriers::arrive(u32 address, u32 bytes, Where where) {
  Mbarrier& b = at(address, where);
  if (self->block != &block_ && !b.fenced)
    block_.report(where, b.name() + ": fence.mbarrier_init is missing");
  if (b.pending == 0)
    block_.report(where, b.name() + ": all " + std::to_string(b.count) + " arrivals of phase " +
                             std::to_string(b.phase) + " have come already");
  if (b.bytes + bytes > kMostBytes)
    block_.report(where, b.name() + ": more than 1048575 bytes are expected");
  self->block->publish(b.gathered);
  b.bytes += bytes;
  --b.pending;
  end_phase_if_due(b);
}

void Mbarriers::complete_bytes(Mbarrier& b, u32 bytes) {
  b.bytes -= bytes;
  end_phase_if_due(b);
}

void Mbarriers::end_phase_if_due(Mbarrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  b.pending = b.count;
  b.gathered.learn_warp(b.actor, b.ends().epoch);
  b.completed = std::make_shared<const Clock>(b.gathered);
  block_.grid().set_last_epoch(b.actor, b.ends().epoch);
  ++b.phase;
  Block::wake(b);
}

bool Mbarriers::test(u32 address, u32 parity, Where where) {
  Mbarrier& b = at(address, where);
  if (parity > 1) block_.report(where, "the parity is " + std::to_string(parity) + ", not 0 or 1");
  if ((b.phase & 1) == parity) return false;
  if (b.completed) self->learn({&b, b.completed});
  b.waited = b.phase;
  return true;
}

// A thread asks again when it runs: a phase that was lapped meanwhile is missed, as on silicon.
void Mbarriers::wait(u32 address, u32 parity, Where where) {
  const u64 from = block_.grid().now();
  while (!test(address, parity, where)) self->block->park(at(address, where), where);
  block_.grid().trace({self->block, self->index, self->role, where, from});
}

}  // namespace tessera::emulator
