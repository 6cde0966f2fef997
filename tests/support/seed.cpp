#include "support/seed.hpp"

#include <cstdlib>

namespace tessera::test {

std::uint64_t test_seed() {
  const char* text = std::getenv("TESSERA_TEST_SEED");
  return text == nullptr ? 20240607 : std::strtoull(text, nullptr, 0);
}

}  // namespace tessera::test
