#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tessera::core {
namespace {

// The known answers that the authors publish with their library (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

static_assert(philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);

TEST(Philox, KeyIsTheSeedLowWordFirst) {
  EXPECT_EQ(philox_key(0x299f31d0'a4093822u), (PhiloxKey{0xa4093822, 0x299f31d0}));
}

// A bijection of the counter for each key: no two counters meet.
TEST(Philox, CountersNeverCollide) {
  std::set<PhiloxCounter> seen;
  for (std::uint32_t n = 0; n < 1000; ++n)
    for (std::size_t word = 0; word < 4; ++word) {
      PhiloxCounter c{};
      c[word] = n + 1;
      seen.insert(philox(c, philox_key(5)));
    }
  EXPECT_EQ(seen.size(), 4000u);
}

}  // namespace
}  // namespace tessera::core
