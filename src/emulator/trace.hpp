// What happened in a run, one line of JSON for each span: who said which word where, from when to
// when. Time is counted in turns of warps; it orders events and measures nothing. A copy lasts from
// its issue until it lands, a wgmma until the last warp has waited for it.
#pragma once
#include <ostream>

#include "emulator/clock.hpp"
#include "emulator/report.hpp"

namespace tessera::emulator {

class Block;

class Trace {
 public:
  struct Span {
    const Block* block;
    int thread;  // -1: the copy engine
    const char* role;
    Where word;
    u64 from;
  };

  explicit Trace(std::ostream& out) : out_(out) {}

  void add(const Span& span, u64 until);

 private:
  std::ostream& out_;
};

}  // namespace tessera::emulator
