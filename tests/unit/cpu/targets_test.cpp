#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "core/error.hpp"
#include "cpu/call.hpp"
#include "cpu/engine.hpp"

namespace tessera::cpu {
namespace {

TEST(Targets, HaveTheirNamesAndLanes) {
  // clang compiles "scalar" as a portable vector of four.
  const std::multimap<std::string, std::int64_t> known{
      {"amx", 16}, {"avx512bf16", 16}, {"avx512", 16}, {"avx2", 8},  {"sse4", 4},
      {"neon", 4}, {"wasm", 4},        {"scalar", 1},  {"scalar", 4}};
  std::set<std::string> names;
  for (const TargetInfo& target : targets()) {
    const std::string name(target.name);
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    const auto [first, last] = known.equal_range(name);
    EXPECT_TRUE(
        std::any_of(first, last, [&](const auto& row) { return row.second == target.lanes; }))
        << name << " with " << target.lanes << " lanes";
  }
}

TEST(Targets, TheBestIsFirstAndScalarLast) {
  const std::vector<TargetInfo> all = targets();
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i - 1].lanes, all[i].lanes) << i;
  EXPECT_EQ(all.back().name, "scalar");
  EXPECT_TRUE(all.back().present);
}

#if defined(__x86_64__)
TEST(Targets, AnX86LibraryCarriesThemAll) {
  std::vector<std::string> names;
  for (const TargetInfo& target : targets()) names.emplace_back(target.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"amx", "avx512bf16", "avx512", "avx2", "sse4", "scalar"}));
}
#endif

#if defined(__linux__) && defined(__x86_64__)
// The kernel of the system tells who made the processor, too.
TEST(Targets, PairsAreNotPreferredOnProcessorsOfIntel) {
  std::ifstream about("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(about), {}};
  ASSERT_NE(text.find("vendor_id"), std::string::npos);
  const bool intel = text.find("GenuineIntel") != std::string::npos;
  for (const TargetInfo& target : targets())
    EXPECT_EQ(target.preferred, target.name != "avx512bf16" || !intel) << target.name;
}
#endif

TEST(Targets, EveryRowHasEveryKernel) {
  for (const Target& target : target_table()) {
    EXPECT_NE(target.forward, nullptr) << target.name;
    for (const Phase phase : target.standard) EXPECT_NE(phase, nullptr) << target.name;
  }
}

TEST(Targets, OnlyTheNamesOfTheTableAreFound) {
  for (const char* name : {"", "avx", "AVX2", "avx5122", "scalar "}) {
    try {
      Engine({.threads = 1, .target = name, .executor = {}, .allocator = {}});
      ADD_FAILURE() << "a target named '" << name << "'";
    } catch (const core::Error& e) {
      EXPECT_EQ(e.status(), core::Status::kInvalidArgument);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  }
}

TEST(Targets, ATargetThatIsAbsentIsRefused) {
  for (const TargetInfo& target : targets()) {
    const auto make = [&] {
      const Engine engine({.threads = 3, .target = target.name, .executor = {}, .allocator = {}});
      return engine.device();
    };
    if (target.present)
      EXPECT_EQ(make(), (plan::Device{target.name, target.lanes, 3, target.bfloat16}));
    else
      EXPECT_THROW(make(), core::Error) << target.name;
  }
}

}  // namespace
}  // namespace tessera::cpu
