#include "cpu/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "core/random.hpp"

namespace tessera::cpu {
namespace {

using core::DType;
using core::Problem;
using core::Tensor;
using plan::Plan;
using plan::Stretch;

Tensor integers(std::vector<std::int32_t>& values) {
  return {values.data(), {std::int64_t(values.size()), 1, 1, 1}, {1, 0, 0, 1}, DType::kInt32};
}

// Packed sequences of these lengths, planned for a device of 4 lanes and tasks of 16 rows.
struct Subject {
  explicit Subject(const std::vector<std::int32_t>& lengths, std::int64_t heads = 3) {
    boundaries.push_back(0);
    for (const std::int32_t n : lengths) boundaries.push_back(boundaries.back() + n);
    p.batch = std::int64_t(lengths.size());
    p.heads = p.kv_heads = heads;
    p.queries = p.keys = boundaries.back();
    p.cu_seqlens_q = p.cu_seqlens_k = integers(boundaries);
    plan = plan::make_plan(p, plan::Backend::kCpu, {"invented", 4, 1});
    list.resize(std::size_t(plan.listed));
  }
  Schedule schedule() { return {p, plan, list.data()}; }

  std::vector<std::int32_t> boundaries;
  Problem p;
  Plan plan;
  std::vector<Stretch> list;
};

// In whole vectors of 4 rows; to begin and end one costs as much as 16 keys.
double work_of(const Problem& p, const Schedule::Task& task, std::int64_t rows) {
  const core::Sequence s = p.sequence(task.b);
  return double((std::min(rows, s.queries - task.row) + 3) / 4 * 4) * double(s.keys.size() + 16);
}

std::vector<std::int32_t> random_lengths(std::uint64_t seed) {
  core::Draws draws(seed);
  std::vector<std::int32_t> lengths(std::size_t(draws.between(1, 40)));
  for (std::int32_t& n : lengths)
    n = std::int32_t(draws.chance(0.2) ? 0 : draws.between(1, draws.chance(0.1) ? 900 : 40));
  return lengths;
}

TEST(Schedule, EveryRowOfEveryHeadIsInExactlyOneTask) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Subject s(random_lengths(seed));
    const Schedule schedule = s.schedule();
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
    for (std::int64_t n = 0; n < s.plan.tasks; ++n) {
      const auto [b, h, row] = schedule.task(n);
      EXPECT_LT(row, s.p.sequence(b).queries);
      EXPECT_EQ(row % s.plan.task_queries, 0);
      EXPECT_TRUE(seen.insert({b, h, row}).second);
    }
    std::int64_t wanted = 0;
    for (std::int64_t b = 0; b < s.p.batch; ++b)
      wanted += (s.p.sequence(b).queries + s.plan.task_queries - 1) / s.plan.task_queries * 3;
    EXPECT_EQ(std::int64_t(seen.size()), wanted);
  }
}

TEST(Schedule, TheSequenceWithTheLongestTaskComesFirst) {
  Subject s({5, 300, 0, 40, 300, 7}, 2);
  const Schedule schedule = s.schedule();
  std::vector<std::int64_t> order;
  for (std::int64_t n = 0; n < s.plan.tasks; ++n)
    if (const auto task = schedule.task(n); order.empty() || order.back() != task.b)
      order.push_back(task.b);
  EXPECT_EQ(order, (std::vector<std::int64_t>{1, 4, 3, 5, 0}));
  EXPECT_EQ(schedule.task(0).h, 0);
  EXPECT_EQ(schedule.task(0).row, 288) << "the last rows, which a causal band makes the longest";
}

// Shares follow one another and miss their part by less than two tasks, one at each end.
TEST(Schedule, SharesAreOfEqualWork) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Subject s(random_lengths(seed));
    const Schedule schedule = s.schedule();
    double all = 0, longest = 0;
    for (std::int64_t n = 0; n < s.plan.tasks; ++n) {
      const double work = work_of(s.p, schedule.task(n), s.plan.task_queries);
      all += work;
      longest = std::max(longest, work);
    }
    for (const int workers : {1, 2, 3, 7}) {
      EXPECT_EQ(schedule.share(0, workers), 0);
      EXPECT_EQ(schedule.share(workers, workers), s.plan.tasks);
      for (int w = 0; w < workers; ++w) {
        double share = 0;
        ASSERT_LE(schedule.share(w, workers), schedule.share(w + 1, workers));
        for (std::int64_t n = schedule.share(w, workers); n < schedule.share(w + 1, workers); ++n)
          share += work_of(s.p, schedule.task(n), s.plan.task_queries);
        EXPECT_LE(share, all / workers + 2 * longest) << "seed " << seed;
      }
    }
  }
}

TEST(Schedule, DenseTasksGoHeadByHead) {
  Problem p;
  p.batch = 2, p.heads = 3, p.kv_heads = 3, p.queries = 40, p.keys = 9;
  const Plan plan = plan::make_plan(p, plan::Backend::kCpu, {"invented", 4, 1});
  const Schedule schedule(p, plan, nullptr);
  EXPECT_EQ(plan.listed, 0);
  std::int64_t n = 0;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 3; ++h)
      for (const std::int64_t row : {32, 16, 0}) {
        const Schedule::Task task = schedule.task(n++);
        EXPECT_EQ(std::tuple(task.b, task.h, task.row), std::tuple(b, h, row));
      }
  EXPECT_EQ(n, plan.tasks);
  EXPECT_EQ(schedule.share(1, 2), 9);
}

}  // namespace
}  // namespace tessera::cpu
