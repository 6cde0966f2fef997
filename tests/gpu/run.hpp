// Probes as the host runs them, in either world.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "gpu/probe_kinds.hpp"

namespace tessera::gpu {

struct Question {
  u64 seed;             // of the emulator's schedule
  std::vector<u32> in;  // of all threads
  std::vector<u8> tensor;
};
struct Reply {
  std::vector<u32> out;
  std::vector<u8> tensor;
};

struct Runner {
  std::string name;
  int threads, in, out;  // words of a thread
  Input input;
  Answer answer;
  int ulps;
  bool stores;  // to the tensor
  Reply (*ask)(const Question&);
};

template <class P> std::string name_of_probe() {
  if (P::kColumns == 0) return P::kName;
  return std::string(P::kName) + ", n " + std::to_string(P::kColumns) + ", " + P::kElement;
}

std::vector<Runner> emulated_probes();
// None, and a sentence on the error output, where there is no GPU of the architecture.
std::vector<Runner> silicon_probes();

}  // namespace tessera::gpu
