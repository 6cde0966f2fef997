#include "emulator/cluster.hpp"

#include <algorithm>

#include "emulator/grid.hpp"

namespace tessera::emulator {

int Cluster::missing() const {
  int count = 0;
  for (Block* block : blocks)
    for (const Warp& w : block->warps())
      count += w.ended < 32 && !(w.cluster_arrived && w.cluster_phase == phase);
  return count;
}

void Cluster::end_phase_if_due() {
  if (missing() != 0) return;
  ++phase;
  known = gathered;
  Block::wake(*this);
}

void Cluster::arrive(Where where) {
  int nothing = 0;
  self->block->meet(where, nothing, [&](int**) {
    Warp& warp = *self->warp;
    if (warp.cluster_arrived)
      self->block->report(where, "arrives again before it has waited (barrier.cluster.wait)");
    warp.cluster_arrived = true;
    warp.cluster_phase = phase;
    self->block->order(warp);
    gathered.join(warp.clock);
    end_phase_if_due();
  });
}

void Cluster::wait(Where where) {
  int nothing = 0;
  self->block->meet(where, nothing, [&](int**) {
    if (!self->warp->cluster_arrived)
      self->block->report(where, "waits without having arrived (barrier.cluster.arrive)");
  });
  Warp& warp = *self->warp;
  while (warp.cluster_arrived && warp.cluster_phase == phase) self->block->park(*this, where);
  if (warp.cluster_arrived) warp.clock.join(known);
  warp.cluster_arrived = false;
}

bool Cluster::ended() const {
  return std::all_of(blocks.begin(), blocks.end(), [](const Block* b) { return b->ended(); });
}

std::string Cluster::describe(const Thread&) const {
  return "the cluster's barrier lacks " + std::to_string(missing()) + " warps";
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

}  // namespace tessera::emulator
