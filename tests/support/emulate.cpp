#include "support/emulate.hpp"

#include "support/seed.hpp"

#ifdef TESSERA_HAS_EMULATOR
#include "emulator/backend.hpp"
#endif

namespace tessera::test {

#ifdef TESSERA_HAS_EMULATOR

bool has_emulator() { return true; }

void emulate(const core::Problem& p) {
  static std::uint64_t calls = 0;
  emulator::run(p, test_seed() + calls++);
}

#else

bool has_emulator() { return false; }

void emulate(const core::Problem&) {}

#endif

}  // namespace tessera::test
