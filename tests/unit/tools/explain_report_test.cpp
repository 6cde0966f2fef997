#include "tools/tessera/explain_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::test {
namespace {

TEST(ExplainText, LongTracesAreShortened) {
  const std::string text = tool::to_text(core::explain_row({.keys = 100, .block = 1}));
  EXPECT_NE(text.find("... 76 more"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 25 + 2 + 5);
}

TEST(ExplainText, TilesAreDrawn) {
  const core::TileGrid grid =
      core::tile_grid({.queries = 6, .keys = 6, .rows = 2, .columns = 2, .band = {.right = 0}});
  const std::string text = tool::to_text(grid);
  EXPECT_NE(text.find("  /..\n  #/.\n  ##/\n"), std::string::npos) << text;
  EXPECT_NE(text.find("3 full, 3 masked, 3 skipped; 24 of 36 pairs are computed, 21 are visible"),
            std::string::npos)
      << text;
}

TEST(ExplainText, EveryWorkerAndEveryMergeHasALine) {
  const core::RowTrace trace = core::explain_row({.keys = 12, .block = 2});
  const std::string text = tool::to_text(core::split_row(trace, 3));
  for (const char* line :
       {"worker 0: [0, 4)", "worker 2: [8, 12)", "merge 0 with 1", "merge 0 with 2", "as a tree"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(ExplainText, TheCatalogueNamesPresetsAndMachines) {
  const std::string text = tool::catalogue_text();
  for (const char* name : {"masked-block", "tiles-window", "h200", "zen4", "datasheet"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
}

TEST(ExplainText, TimesNeedARoof) {
  core::ExplainRequest request;
  request.set_words("--n 4096 --d 128 --dtype bf16");
  EXPECT_EQ(tool::times_text(request.traffic()), "");
  request.set("--gpu", "h200");
  const std::string text = tool::times_text(request.traffic());
  EXPECT_NE(text.find("ridge at 206.1 flop/B"), std::string::npos) << text;
  EXPECT_NE(text.find(" m"), std::string::npos) << text;  // standard attention
}

}  // namespace
}  // namespace tessera::test
