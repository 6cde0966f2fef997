#include "core/explain_split.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"

namespace tessera::test {
namespace {

using core::explain_row;
using core::RowTrace;
using core::split_row;
using core::SplitTrace;

TEST(SplitRow, WorkersShareWholeBlocksInOrder) {
  const RowTrace t = explain_row({.keys = 22, .block = 4});  // 6 blocks, the last of 2 keys
  for (const std::int64_t workers : {1, 2, 3, 4, 5, 6}) {
    const SplitTrace split = split_row(t, workers);
    ASSERT_EQ(std::ssize(split.parts), workers);
    std::int64_t next = 0;
    for (const core::SplitPart& part : split.parts) {
      EXPECT_EQ(part.keys.begin, next);
      EXPECT_EQ(part.keys.begin % 4, 0);
      EXPECT_FALSE(part.keys.empty());
      next = part.keys.end;
    }
    EXPECT_EQ(next, 22);
  }
}

TEST(SplitRow, AnyNumberOfWorkersGivesTheRow) {
  const RowTrace t = explain_row({.keys = 64, .block = 4, .dim = 5, .seed = 3, .sink = 1.f});
  for (std::int64_t workers = 1; workers <= 40; ++workers) {
    const SplitTrace split = split_row(t, workers);
    EXPECT_EQ(split.tree.m, t.end.m) << workers;
    EXPECT_NEAR(split.tree.lse(), t.exact.lse, 1e-6) << workers;
    EXPECT_LT(split.tree_error, 1e-6) << workers;
    EXPECT_LT(split.chain_error, 1e-6) << workers;
  }
}

// One worker is the loop itself: a merge with a block's state is a step.
TEST(SplitRow, OneWorkerMergesNothing) {
  const RowTrace t = explain_row({.keys = 16, .block = 4});
  const SplitTrace split = split_row(t, 1);
  EXPECT_TRUE(split.merges.empty());
  EXPECT_EQ(split.tree, split.parts[0].state);
  EXPECT_EQ(split.tree, split.chain);
}

TEST(SplitRow, MergesAreATree) {
  const SplitTrace split = split_row(explain_row({.keys = 40, .block = 4}), 5);
  ASSERT_EQ(split.merges.size(), 4u);
  const std::size_t into[] = {0, 2, 0, 0}, from[] = {1, 3, 2, 4};
  const std::int64_t level[] = {0, 0, 1, 2};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(split.merges[i].into, into[i]);
    EXPECT_EQ(split.merges[i].from, from[i]);
    EXPECT_EQ(split.merges[i].level, level[i]);
  }
  EXPECT_EQ(split.merges.back().state, split.tree);
}

TEST(SplitRow, TheFactorsMoveBothToTheirMaximum) {
  const SplitTrace split =
      split_row(explain_row({.keys = 4, .block = 2, .scores = {0, 1, 3, 2}}), 2);
  EXPECT_NEAR(split.merges[0].rescale_into, std::exp(-2.), 1e-7);
  EXPECT_EQ(split.merges[0].rescale_from, 1);
}

TEST(SplitRow, ARowThatSeesNothingStaysEmpty) {
  const SplitTrace split = split_row(explain_row({.keys = 8, .hidden = {{0, 8}}}), 3);
  EXPECT_EQ(split.tree.l, 0);
  EXPECT_EQ(split.merges[0].rescale_into, 1);
  EXPECT_EQ(split.tree_error, 0);
}

TEST(SplitRow, RefusesNumbersOfWorkersThatMakeNoSense) {
  const RowTrace t = explain_row({});
  EXPECT_THROW(split_row(t, 0), core::Error);
  EXPECT_THROW(split_row(t, 65), core::Error);
}

}  // namespace
}  // namespace tessera::test
