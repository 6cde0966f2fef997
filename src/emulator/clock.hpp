// What somebody knows to have happened: vector clocks over the warps of a grid.
//
// The lanes of a warp agree on nearly everything, so there is one clock for each warp. An entry
// says up to which of its epochs all lanes of that warp are known. What a single lane published, or
// learnt, through an atomic stands in `lanes`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "device/types.cuh"

namespace tessera::emulator {

using device::u16;
using device::u32;
using device::u64;

// An event: the epoch of the warp in which a thread of the grid did something.
struct Event {
  u32 thread = 0, epoch = 0;
  u32 warp() const { return thread / 32; }
};

struct Clock {
  std::vector<u32> warps;
  std::vector<Event> lanes;

  bool knows(Event e) const {
    if (e.warp() < warps.size() && warps[e.warp()] >= e.epoch) return true;
    return std::any_of(lanes.begin(), lanes.end(),
                       [e](Event l) { return l.thread == e.thread && l.epoch >= e.epoch; });
  }
  void join(const Clock& other) {
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
    for (Event& l : lanes)
      if (l.thread == e.thread) {
        l.epoch = std::max(l.epoch, e.epoch);
        return;
      }
    lanes.push_back(e);
  }
};

}  // namespace tessera::emulator
