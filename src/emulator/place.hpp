// Somewhere to wait, outside the meetings of a warp.
#pragma once
#include <string>
#include <vector>

namespace tessera::emulator {

struct Thread;

struct Place {
  std::vector<Thread*> waiting;

  virtual ~Place() = default;
  // What a thread that waits here waits for, in a report of a deadlock.
  virtual std::string describe(const Thread& thread) const = 0;
};

}  // namespace tessera::emulator
