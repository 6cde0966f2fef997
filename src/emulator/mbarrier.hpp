// Barriers in shared memory: phases that end after so many arrivals and so many bytes of copies.
#pragma once
#include <list>
#include <memory>
#include <string>

#include "emulator/clock.hpp"
#include "emulator/place.hpp"
#include "emulator/report.hpp"

namespace tessera::emulator {

class Block;
struct Mbarrier;

// A phase that has ended, and what those who waited for it know.
struct Phase {
  const Mbarrier* barrier;
  std::shared_ptr<const Clock> known;
};

struct Mbarrier : Place {
  u32 address = 0;
  const char* label = "";
  int count = 0, pending = 0;
  i64 bytes = 0;  // announced and not yet copied
  u32 phase = 0;
  u32 actor = 0, first = 0;  // phase n ends as the event (32 actor, first + n)
  Event created;
  u32 copied = 0, waited = 0;  // phases below have had copies; have been waited for
  bool fenced = false;         // the copy engine and the cluster may know it
  Clock gathered;
  std::shared_ptr<const Clock> completed;

  std::string name() const;
  std::string describe(const Thread& thread) const override;
  Event ends() const { return {32 * actor, first + phase}; }  // of the phase under way
};

class Mbarriers {
 public:
  explicit Mbarriers(Block& block) : block_(block) {}

  void init(u32 address, int arrivals, const char* label, Where where);
  void init_fence();
  // One arrival, which first announces `bytes`.
  void arrive(u32 address, u32 bytes, Where where);
  bool test(u32 address, u32 parity, Where where);
  void wait(u32 address, u32 parity, Where where);

  Mbarrier& at(u32 address, Where where);
  void complete_bytes(Mbarrier& barrier, u32 bytes);
  const std::list<Mbarrier>& all() const { return barriers_; }

 private:
  void end_phase_if_due(Mbarrier& barrier);

  Block& block_;
  std::list<Mbarrier> barriers_;
};

}  // namespace tessera::emulator
