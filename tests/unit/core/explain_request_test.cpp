#include "core/explain_request.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/explain_presets.hpp"

namespace tessera::test {
namespace {

using core::ExplainRequest;

ExplainRequest request(std::string_view words) {
  ExplainRequest r;
  r.set_words(words);
  return r;
}

std::string refusal(std::string_view words) {
  try {
    const ExplainRequest r = request(words);
    r.traffic();
    r.trace();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TEST(ExplainRequest, WordsAreOptionsWithOneValueEach) {
  const ExplainRequest r = request("--n 12 --block 3 --seed 7 --sink -0.5 --hide 1 --hide 4,5");
  const core::RowTrace t = r.trace();
  EXPECT_EQ(t.options.keys, 12);
  EXPECT_EQ(t.options.block, 3);
  EXPECT_EQ(t.options.seed, 7u);
  EXPECT_EQ(t.options.sink, -0.5f);
  EXPECT_EQ(t.options.hidden, (std::vector<core::Range>{{1, 2}, {4, 6}}));
}

TEST(ExplainRequest, GainRampAndShiftChangeTheScores) {
  const core::RowTrace plain = request("--n 6").trace();
  const core::RowTrace changed = request("--n 6 --gain 2 --ramp 0.5 --shift -1").trace();
  for (std::size_t j = 0; j < 6; ++j)
    EXPECT_NEAR(changed.scores[j], 2 * plain.scores[j] + .5f * float(j) - 1, 1e-6);
  EXPECT_LT(changed.steps.back().error, 1e-6);
  // Adding a constant to all scores changes nothing.
  const core::RowTrace shifted = request("--n 6 --shift 3").trace();
  for (std::size_t d = 0; d < 4; ++d) EXPECT_NEAR(shifted.exact.out[d], plain.exact.out[d], 1e-12);
}

TEST(ExplainRequest, ARowIsCausalUnlessAWindowSaysOtherwise) {
  EXPECT_EQ(request("--row 3").trace().options.band, (core::Band{.right = 0}));
  const auto window = request("--row 5 --window 2,1").trace().options;
  EXPECT_EQ(window.band, (core::Band{.left = 2, .right = 1}));
  EXPECT_EQ(window.row, 5);
  EXPECT_EQ(request("--n 9 --window 2,0").trace().options.row, 8);
}

TEST(ExplainRequest, TheGridAlignsTheLastQueryWithTheLastKey) {
  const core::TileGrid grid = request("--n 8 --queries 4 --block 2 --grid 2 --window -1,0").grid();
  EXPECT_EQ(grid.options.band.offset, 4);
  EXPECT_EQ(grid.at(0, 0), core::TileKind::kFull);
  EXPECT_EQ(grid.at(1, 3), core::TileKind::kMasked);
}

TEST(ExplainRequest, HeadsAndBatchMultiply) {
  const auto rows = request("--lengths 256,512 --heads 8 --batch 3").traffic();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].shape.heads, 24);
  EXPECT_EQ(rows[1].shape.keys, 512);
  EXPECT_FALSE(rows[0].roof);
}

TEST(ExplainRequest, AMachineGivesRatesCacheAndFastMemory) {
  const auto row = request("--n 1024 --gpu a100 --dtype bf16").traffic()[0];
  EXPECT_EQ(row.roof->flops_per_second, 312e12);
  EXPECT_EQ(row.sram_bytes, 163 * 1024);
  const auto own = request("--n 1024 --gpu a100 --peak 1e12 --cache 7 --sram 65536").traffic()[0];
  EXPECT_EQ(own.roof->flops_per_second, 1e12);
  EXPECT_EQ(own.roof->bytes_per_second, 2039e9);
  EXPECT_EQ(own.roof->cache_bytes, 7);
  EXPECT_EQ(own.sram_bytes, 65536);
  EXPECT_EQ(request("--gpu a100").roof()->flops_per_second, 19.5e12);
}

TEST(ExplainRequest, RefusalsAreSentences) {
  EXPECT_EQ(refusal("--bloc 4"), "--bloc is no option of explain");
  EXPECT_EQ(refusal("--n 0"), "--n is 0; give an integer >= 1");
  EXPECT_EQ(refusal("--n"), "--n is ''; give an integer of at most 64 bits");
  EXPECT_EQ(refusal("--gain inf"), "--gain is 'inf'; give a finite number, such as 0.125");
  EXPECT_EQ(refusal("--gain 1e99"), "--gain is '1e99'; give a finite number, such as 0.125");
  EXPECT_EQ(refusal("--peak 0"), "--peak is '0'; give a number > 0, such as 3.35e12");
  EXPECT_EQ(refusal("--gpu cray"),
            "--gpu is 'cray'; it is one of a100, h100, h200, b200, rtx4090, rtx5090, zen4");
  EXPECT_NE(refusal("--preset odd").find("it is one of plain, ascending"), std::string::npos);
  EXPECT_NE(refusal("--window 3").find("--window is '3'"), std::string::npos);
  EXPECT_NE(refusal("--window -2,0").find("--window is '-2,0'"), std::string::npos);
  EXPECT_NE(refusal("--lengths 4,0").find("--lengths is '4,0'"), std::string::npos);
  EXPECT_NE(refusal("--heads 99999999999 --n 1").find("at most 2^31"), std::string::npos);
  EXPECT_EQ(refusal("--peak 1e12 --n 9"),
            "a roofline needs both rates; give --gpu, or --peak and --bandwidth");
}

TEST(ExplainPresets, EachDoesWhatItsLessonSays) {
  const auto steps = [](const char* name) {
    return request(std::string("--preset ") + name).trace().steps;
  };
  for (const core::RowStep& step : steps("ascending")) EXPECT_TRUE(step.grew());
  const core::RowTrace huge = request("--preset huge").trace();
  EXPECT_TRUE(std::isnan(huge.naive[0]));
  EXPECT_LT(huge.steps.back().error, 1e-5);
  EXPECT_TRUE(steps("masked-block")[1].skipped);
  const auto causal = steps("causal");
  EXPECT_FALSE(causal[2].skipped);
  EXPECT_TRUE(std::isinf(causal[2].scores[2]));
  EXPECT_TRUE(causal[3].skipped);
  EXPECT_EQ(request("--preset nothing").trace().end.l, 0);
  EXPECT_EQ(request("--preset sink").trace().start.m, 2);
  EXPECT_GT(steps("bf16").back().error, 1e-4);
  EXPECT_EQ(request("--preset split").workers, 4);
  EXPECT_EQ(request("--preset tiles-causal").grid().skipped, 28);
  EXPECT_LT(request("--preset tiles-window").grid().full + 1, 28);
}

TEST(ExplainPresets, AllCanBeAsked) {
  for (const core::ExplainPreset& preset : core::explain_presets()) {
    const ExplainRequest r = request(preset.words);
    EXPECT_LT(r.trace().steps.back().error, 0.01) << preset.name;
    if (r.grid_rows > 0) {
      EXPECT_GT(r.grid().skipped, 0) << preset.name;
    }
  }
}

}  // namespace
}  // namespace tessera::test
