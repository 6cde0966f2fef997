#include "core/traffic_roofline.hpp"

#include <gtest/gtest.h>

namespace tessera::test {
namespace {

using core::Roof;
using core::time_under;

TEST(Roofline, TheLongerOfArithmeticAndTransferCounts) {
  const Roof roof{.flops_per_second = 100, .bytes_per_second = 10, .cache_bytes = 0};
  EXPECT_EQ(roof.ridge(), 10);
  const auto slow = time_under(roof, {.flops = 100, .bytes = 50});
  EXPECT_EQ(slow.seconds, 5);
  EXPECT_TRUE(slow.memory_bound);
  EXPECT_EQ(slow.flops_per_second, 20);
  const auto busy = time_under(roof, {.flops = 1000, .bytes = 50});
  EXPECT_EQ(busy.seconds, 10);
  EXPECT_FALSE(busy.memory_bound);
  EXPECT_EQ(busy.flops_per_second, 100);
}

TEST(Roofline, TheAttainedRateLiesOnTheRoof) {
  const Roof roof{.flops_per_second = 989e12, .bytes_per_second = 3.35e12, .cache_bytes = 0};
  for (const std::int64_t bytes : {1000, 100000, 10000000}) {
    const core::Schedule s{.flops = 1 << 28, .bytes = bytes};
    const double rate = time_under(roof, s).flops_per_second;
    EXPECT_NEAR(rate, roof.at(s.intensity()), rate * 1e-14);
  }
}

TEST(Machines, AreFoundByNameAndPlausible) {
  EXPECT_EQ(core::find_machine("h200")->bytes_per_second, 4.8e12);
  EXPECT_EQ(core::find_machine("h300"), nullptr);
  for (const core::Machine& m : core::machines()) {
    EXPECT_EQ(core::find_machine(m.name), &m);
    EXPECT_GE(m.flops_16, m.flops_32) << m.name;
    EXPECT_GT(m.cache_bytes, m.sram_bytes) << m.name;
  }
}

}  // namespace
}  // namespace tessera::test
