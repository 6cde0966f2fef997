// The words of every target that the library was compiled for: its list of targets, said again.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "unit/cpu/words-inl.hpp"
#include <hwy/foreach_target.h>
//
#include "unit/cpu/words-inl.hpp"

namespace tessera::test {

std::vector<Words>& all_words() {
  static std::vector<Words> all;
  return all;
}

namespace {

// Without this, a target that a test cannot name would be a target that no test checks.
TEST(Words, CoverEveryTarget) {
  for (const cpu::TargetInfo& target : cpu::targets()) {
    if (target.name == "avx512bf16") continue;  // those of avx512, and those of pairs_test.cpp
    int found = 0;
    for (const Words& words : all_words())
      if (words.name == target.name) {
        ++found;
        EXPECT_EQ(words.lanes, target.lanes) << target.name;
      }
    EXPECT_EQ(found, 1) << target.name;
  }
  EXPECT_EQ(all_words().size() + (cpu::targets().front().name == "avx512bf16" ? 1 : 0),
            cpu::targets().size());
  EXPECT_FALSE(present_words().empty());
}

}  // namespace
}  // namespace tessera::test
