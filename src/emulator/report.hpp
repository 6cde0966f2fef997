// A broken rule: the word that broke it, who said it, and where.
#pragma once
#include <stdexcept>
#include <string>

namespace tessera::emulator {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The line of a kernel. As a default argument, here() is the line of the caller.
struct Site {
  const char* file = nullptr;
  int line = 0;
};
constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}

// block.cuh:35
std::string place_of(Site site);

struct Where {
  const char* word;
  Site site;
};

}  // namespace tessera::emulator
