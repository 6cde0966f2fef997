#include "tools/tessera/bench_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "tools/tessera/bench_case.hpp"

namespace tessera::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(ResidentGrowth, IsWhatTheCallTouches) {
  const auto growth = tool::resident_growth([] {
    std::vector<char> memory(16 * kMiB);
    std::memset(memory.data(), 1, memory.size());
  });
  ASSERT_TRUE(growth.has_value());
  EXPECT_GE(*growth, 15 * kMiB);
  EXPECT_LE(*growth, 16 * kMiB + tool::kResidentSlack);
}

TEST(ResidentGrowth, OfNothingIsWithinTheSlack) {
  const auto growth = tool::resident_growth([] {});
  ASSERT_TRUE(growth.has_value());
  EXPECT_LE(*growth, tool::kResidentSlack);
}

TEST(ResidentGrowth, SaysNothingOfACallThatFailed) {
  EXPECT_FALSE(tool::resident_growth([] { throw std::runtime_error("no"); }).has_value());
}

std::uint64_t extra_bytes(std::uint32_t backend, std::int64_t n, int calls = 1) {
  tool::MemoryMeter meter;
  const tool::Context context = meter.make_context(1);
  tool::AttentionOptions options;
  options.backend = backend;
  tool::Source source;
  source.shape = tool::Shape{1, n, n, 1, 1, 8, 8};
  const tool::Inputs inputs = load_inputs(source, options);
  const tool::Results results = make_results(*source.shape, core::DType::kFloat32);
  for (int i = 0; i < calls; ++i) attend(context, describe(inputs, options), results);
  return meter.most();
}

TEST(MemoryMeter, SeesTheMatrixOfStandardAttention) {
  EXPECT_GE(extra_bytes(TESSERA_BACKEND_STANDARD, 1024), 4 * kMiB);
  EXPECT_LT(extra_bytes(TESSERA_BACKEND_STANDARD, 1024), 6 * kMiB);
}

TEST(MemoryMeter, TiledAttentionDoesNotGrowWithTheLength) {
  const std::uint64_t small = extra_bytes(TESSERA_BACKEND_CPU, 512);
  EXPECT_GT(small, 0u);
  EXPECT_LT(extra_bytes(TESSERA_BACKEND_CPU, 2048), 2 * small + kMiB);
}

// The block that a call gives back is not counted a second time.
TEST(MemoryMeter, ManyCallsHoldNoMoreThanOne) {
  EXPECT_EQ(extra_bytes(TESSERA_BACKEND_STANDARD, 256, 5),
            extra_bytes(TESSERA_BACKEND_STANDARD, 256));
}

TEST(Measurement, HiddenMemoryIsNotAgreed) {
  tool::Measurement m;
  m.extra_bytes = kMiB;
  EXPECT_TRUE(m.memory_agrees());  // no child could be asked
  m.resident_bytes = kMiB + tool::kResidentSlack;
  EXPECT_TRUE(m.memory_agrees());
  m.resident_bytes = kMiB + tool::kResidentSlack + 1;
  EXPECT_FALSE(m.memory_agrees());
}

}  // namespace
}  // namespace tessera::test
