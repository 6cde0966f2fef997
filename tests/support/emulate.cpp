#include "support/emulate.hpp"

#include <stdexcept>
#include <string>

#include "support/seed.hpp"

#ifdef TESSERA_HAS_EMULATOR
#include "emulator/backend.hpp"
#include "emulator/backend_sm90.hpp"
#endif

namespace tessera::test {

#ifdef TESSERA_HAS_EMULATOR

bool has_emulator() { return true; }

void emulate(const core::Problem& p, std::string_view architecture) {
  if (architecture != "sm80" && architecture != "sm90")
    throw std::invalid_argument("the emulator has no kernels of " + std::string(architecture));
  static std::uint64_t calls = 0;
  const std::uint64_t seed = test_seed() + calls++;
  const bool own = architecture == "sm90" && emulator::refusal_of_sm90(p).empty();
  own ? emulator::run_on_sm90(p, seed) : emulator::run(p, seed);
}

#else

bool has_emulator() { return false; }

void emulate(const core::Problem&, std::string_view) {}

#endif

}  // namespace tessera::test
