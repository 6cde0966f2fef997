// The words of every target that the library was compiled for: its list of targets, said again.
#define HWY_COMPILE_ALL_ATTAINABLE
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

// Beside those of avx512: pairs_test.cpp.
bool has_words_of_its_own(std::string_view target) {
  return target == "avx512bf16" || target == "amx";
}

// Without this, a target that a test cannot name would be a target that no test checks.
TEST(Words, CoverEveryTarget) {
  int covered = 0;
  for (const cpu::TargetInfo& target : cpu::targets()) {
    if (has_words_of_its_own(target.name)) continue;
    int found = 0;
    ++covered;
    for (const Words& words : all_words())
      if (words.name == target.name) {
        ++found;
        EXPECT_EQ(words.lanes, target.lanes) << target.name;
      }
    EXPECT_EQ(found, 1) << target.name;
  }
  EXPECT_EQ(all_words().size(), std::size_t(covered));
  EXPECT_FALSE(present_words().empty());
}

}  // namespace
}  // namespace tessera::test
