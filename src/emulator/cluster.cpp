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

}  // namespace tessera::emulator
