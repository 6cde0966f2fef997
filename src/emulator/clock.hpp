// What somebody knows to have happened: vector clocks over the actors of a grid.
//
// The lanes of a warp agree on nearly everything, so there is one entry for each warp. It says up
// to which of its epochs all lanes of that warp are known. What a single lane published stands in
// `lanes`. Words that end on their own time are actors too, numbered after the warps: an mbarrier,
// whose epochs are its phases, and what counts the multiplications of a warpgroup or the bulk
// stores of a thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "device/types.cuh"

namespace tessera::emulator {

using device::i64;
using device::u16;
using device::u32;
using device::u64;

// Something that a thread of the grid did in an epoch of its warp, or that an actor completed.
struct Event {
  u32 thread = 0, epoch = 0;  // of an actor: 32 times its number
  u32 warp() const { return thread / 32; }
};

struct Known {
  std::vector<u32> warps;
  std::vector<Event> lanes;  // in the order of threads

  bool knows(Event e) const {
    if (e.warp() < warps.size() && warps[e.warp()] >= e.epoch) return true;
    const auto l = find(e.thread);
    return l != lanes.end() && l->thread == e.thread && l->epoch >= e.epoch;
  }
  void join(const Known& other) {
    warps.resize(std::max(warps.size(), other.warps.size()));
    for (std::size_t w = 0; w < other.warps.size(); ++w)
      warps[w] = std::max(warps[w], other.warps[w]);
    for (const Event e : other.lanes) learn(e);
  }
  void learn_warp(u32 warp, u32 epoch) {
    if (warps.size() <= warp) warps.resize(warp + 1);
    warps[warp] = std::max(warps[warp], epoch);
  }
  void learn(Event e) {
    if (e.warp() < warps.size() && warps[e.warp()] >= e.epoch) return;
    const auto l = lanes.begin() + (find(e.thread) - lanes.cbegin());
    if (l != lanes.end() && l->thread == e.thread)
      l->epoch = std::max(l->epoch, e.epoch);
    else
      lanes.insert(l, e);
  }

 private:
  std::vector<Event>::const_iterator find(u32 thread) const {
    return std::lower_bound(lanes.begin(), lanes.end(), thread,
                            [](Event l, u32 t) { return l.thread < t; });
  }
};

struct Clock : Known {
  Known fenced;  // the part that a fence.proxy.async stands behind

  void join(const Clock& other) {
    Known::join(other);
    fenced.join(other.fenced);
  }
};

}  // namespace tessera::emulator
