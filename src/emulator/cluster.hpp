// Blocks that are resident together, and the barrier that all their threads share.
#pragma once
#include <string>
#include <vector>

#include "emulator/clock.hpp"
#include "emulator/place.hpp"
#include "emulator/report.hpp"

namespace tessera::emulator {

class Block;

struct Cluster : Place {
  std::vector<Block*> blocks;  // by rank
  u64 phase = 1;
  Clock gathered, known;  // by those who have arrived; when the last phase ended

  // barrier.cluster, by a whole warp; a thread that has ended counts as arrived.
  void arrive(Where where);
  void wait(Where where);
  void end_phase_if_due();

  bool ended() const;
  std::string describe(const Thread& thread) const override;

 private:
  int missing() const;  // warps
};

}  // namespace tessera::emulator
