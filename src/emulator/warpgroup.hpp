// Four warps and the tensor core that they feed: operands are found by descriptor, results appear
// when they are waited for.
#pragma once
#include <array>
#include <deque>
#include <list>
#include <vector>

#include "emulator/clock.hpp"
#include "emulator/report.hpp"

namespace tessera::emulator {

struct Warp;
enum class Operands { kFloat16, kBfloat16 };

// Registers that the tensor core uses on its own time.
struct Operand {
  bool writing = false;  // by a wgmma that has not been waited for
  bool touched = true;   // since the last wgmma.fence
  int reading = 0;
  Where where{"", {}};

  Operand() = default;
  Operand(const Operand&) = delete;  // they are known by their place
  Operand& operator=(const Operand&) = delete;
  void check(bool writes) const;
};

struct WgmmaCall {
  Where where;
  Operands type;
  Operand* d;
  float* sums;
  int columns;
  Operand* a;  // null: by descriptor
  const u32* a_registers;
  u64 a_descriptor, b_descriptor;
  device::Major a_major, b_major;
  bool accumulate;
};

// 64 x columns sums between issue and wait.
struct Accumulator {
  int columns = 0, left = 4;  // warps that have not got theirs
  u32 last = 0;               // the wgmma that completes it
  std::vector<float> value;
  std::array<WgmmaCall, 128> owner;
};

struct Wgmma {
  WgmmaCall call;
  Accumulator* target;
  std::array<Operand*, 128> a;
  std::vector<float> a_value;  // [16][64], if A is in registers
  int left = 4;                // warps that have not waited for it
  u64 issued = 0;
};

struct Warpgroup {
  // A meeting of its 128 threads.
  std::array<void*, 128> arguments{};
  const char* word = nullptr;
  int arrived = 0;  // warps
  std::array<Warp*, 4> warps{};

  std::deque<Wgmma> pending;
  u32 first = 0, executed = 0;  // numbers of pending.front() and of the next to execute
  std::list<Accumulator> live;
  u32 actor = 0, base = 0;  // wgmma n ends as the event base + n

  u32 issued() const { return first + u32(pending.size()); }
};

void wgmma_fence(Operand& d, Operand* a, Where where);
void wgmma(WgmmaCall call);
void wgmma_commit(Where where);
void wgmma_wait(u32 pending, Operand& d, Where where);

}  // namespace tessera::emulator
