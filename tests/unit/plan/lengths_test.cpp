// Plans of calls whose sequences differ in length, or lie in pages.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "unit/plan/problems.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;
using test::problem_of;

constexpr Device kWide{.target = "avx512", .lanes = 16, .threads = 2};

// One of 1000 rows, one of nothing and one of 100, with spare rows after them.
Problem packed_problem(std::int32_t (&boundaries)[4], std::int64_t rows) {
  Problem p = problem_of({.batch = 1,
                          .queries = rows,
                          .keys = rows,
                          .heads = 2,
                          .kv_heads = 2,
                          .dim = 64,
                          .value_dim = 64});
  p.batch = 3;
  p.cu_seqlens_q = p.cu_seqlens_k = test::integers(boundaries);
  return p;
}

TEST(PlannerLengths, PackedSequencesAreCountedOneByOne) {
  std::int32_t boundaries[] = {0, 1000, 1000, 1100};
  const Plan exact = make_plan(packed_problem(boundaries, 1100), Backend::kCpu, kWide);
  EXPECT_EQ(exact.task_queries, 64);
  EXPECT_EQ(exact.tasks, 2 * (16 + 0 + 2));
  EXPECT_EQ(exact.listed, 3);
  EXPECT_EQ(exact.clearing, 0);
  EXPECT_EQ(exact.longest_keys, 1000);
  EXPECT_EQ(exact.shared_bytes, 128) << "three stretches in whole lines";
  const Plan spare = make_plan(packed_problem(boundaries, 1101), Backend::kCpu, kWide);
  EXPECT_EQ(spare.clearing, 2) << "a task for each head writes the row past the last sequence";
  EXPECT_EQ(spare.tasks, exact.tasks + 2);
}

TEST(PlannerLengths, UsedLengthsLeaveRowsToClear) {
  std::int32_t boundaries[] = {0, 1000, 1000, 1100}, used[] = {1000, 0, 99};
  Problem p = packed_problem(boundaries, 1100);
  p.seqused_q = test::integers(used);
  EXPECT_EQ(make_plan(p, Backend::kCpu, kWide).clearing, 2);
}

// What many short sequences cost is their sum, not the square of it.
TEST(PlannerLengths, WorkersFollowTheWorkThatThereIs) {
  std::int32_t short_ones[] = {0, 2, 4, 6}, long_one[] = {0, 1100, 1100, 1100};
  EXPECT_EQ(make_plan(packed_problem(short_ones, 1100), Backend::kCpu, kWide).workers, 1);
  EXPECT_EQ(make_plan(packed_problem(long_one, 1100), Backend::kCpu, kWide).workers, 2);
}

// A hundred short sequences do not keep 16 threads busy while one works at a task of the long one.
TEST(PlannerLengths, TasksOfTheLongestSequenceAreEnoughForTheThreads) {
  std::vector<std::int32_t> boundaries{0};
  for (int n = 0; n < 101; ++n) boundaries.push_back(boundaries.back() + (n == 50 ? 16384 : 64));
  Problem p = problem_of(
      {.queries = boundaries.back(), .keys = boundaries.back(), .dim = 64, .value_dim = 64});
  p.batch = 101;
  p.cu_seqlens_q = {boundaries.data(), {102, 1, 1, 1}, {1, 0, 0, 1}, DType::kInt32};
  p.cu_seqlens_k = p.cu_seqlens_q;
  const auto rows = [&](std::int64_t threads) {
    return make_plan(p, Backend::kCpu, {"invented", 16, threads}).task_queries;
  };
  EXPECT_EQ(rows(2), 256);
  EXPECT_EQ(rows(16), 256) << "64 tasks";
  EXPECT_EQ(rows(32), 128);
}

TEST(PlannerLengths, CopiesHaveRoomForTheLongestSequenceAlone) {
  std::int32_t boundaries[] = {0, 96, 192, 288};
  Problem p = packed_problem(boundaries, 288);
  for (core::Tensor* t : {&p.q, &p.k, &p.v}) t->dtype = DType::kBfloat16;
  Problem one = p;
  one.cu_seqlens_q = one.cu_seqlens_k = {};
  one.batch = 1, one.keys = 96;
  EXPECT_EQ(make_plan(p, Backend::kCpu, kWide).worker_bytes,
            make_plan(one, Backend::kCpu, kWide).worker_bytes);
}

TEST(PlannerLengths, PagesAreGatheredUnlessABlockLiesInOne) {
  std::int32_t table[] = {0, 1}, lengths[] = {192};
  for (const auto& [page_size, packing] : {std::pair{96, Packing::kNone},
                                           {192, Packing::kNone},
                                           {64, Packing::kHead},
                                           {1, Packing::kHead}}) {
    Problem p = problem_of({.queries = 40, .keys = page_size, .dim = 64, .value_dim = 64});
    p.block_table = test::integers(table);
    std::swap(p.block_table.shape[0], p.block_table.shape[1]);
    p.keys = 2 * page_size;
    p.kv_lengths = test::integers(lengths);
    const Plan plan = make_plan(p, Backend::kCpu, kWide);
    EXPECT_EQ(plan.packing, packing) << page_size;
    if (packing == Packing::kHead) {
      EXPECT_EQ(plan.why_packing, "blocks of keys are gathered from pages");
    }
  }
}

TEST(PlannerLengths, DecodingReadsPagesOfWholeRunsAsTheyLie) {
  std::int32_t table[] = {0, 1}, lengths[] = {96};
  for (const auto& [page_size, packing] : {std::pair{16, Packing::kNone},
                                           {48, Packing::kNone},
                                           {8, Packing::kBlock},
                                           {24, Packing::kBlock},
                                           {1, Packing::kBlock}}) {
    Problem p = problem_of({.queries = 1, .keys = page_size, .dim = 64, .value_dim = 64});
    p.block_table = test::integers(table);
    std::swap(p.block_table.shape[0], p.block_table.shape[1]);
    p.keys = 2 * page_size;
    p.kv_lengths = test::integers(lengths);
    const Plan plan = make_plan(p, Backend::kCpu, kWide);
    EXPECT_EQ(plan.kernel, Kernel::kDecode);
    EXPECT_EQ(plan.packing, packing) << page_size;
    if (packing == Packing::kBlock) {
      EXPECT_EQ(plan.why_packing, "keys are gathered from small pages");
    }
  }
}

}  // namespace
}  // namespace tessera::plan
