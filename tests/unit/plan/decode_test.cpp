// When the decode kernel is taken, and what it is given.
#include <gtest/gtest.h>

#include <string>

#include "plan/plan.hpp"
#include "unit/plan/problems.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;
using test::present;
using test::problem_of;
using test::Shape;

constexpr Device kWide{.target = "avx512", .lanes = 16, .threads = 2};
constexpr Shape kOneQuery{
    .batch = 2, .queries = 1, .keys = 5000, .heads = 8, .kv_heads = 2, .dim = 128, .value_dim = 64};

Plan planned(const Problem& p, const Device& device = kWide) {
  return make_plan(p, Backend::kCpu, device);
}

TEST(DecodePlan, SplitsByTheShapeAlone) {
  for (const std::int64_t threads : {1, 2, 64}) {
    Plan want;
    want.backend = Backend::kCpu;
    want.device = {"avx512", 16, threads};
    want.tile_queries = want.task_queries = 4;
    want.tile_keys = 32;
    want.kernel = Kernel::kDecode;
    want.split_keys = 1024;
    want.splits = 5;
    want.tasks = 2 * 2 * 5;
    want.workers = std::min<std::int64_t>(threads, 16);  // a MB each
    want.worker_bytes = 4 * (16 * 128 + 2 * 64 + 32 * (128 + 64));
    want.shared_bytes = 4 * 2 * 8 * 5 * (64 + 16);
    want.why_backend = "asked for";
    want.why_packing = "k and v are read as they lie";
    want.why_arithmetic = "q, k and v are not bfloat16";
    want.why_kernel = "few queries: keys are read once for all heads";
    const Plan got = planned(problem_of(kOneQuery), want.device);
    EXPECT_EQ(got, want) << to_json(got, problem_of(kOneQuery));
  }
}

TEST(DecodePlan, ManyRowsOfAGroupAreSeveralTasks) {
  Shape shape = kOneQuery;
  shape.heads = 64, shape.queries = 3;  // 96 rows a key head
  const Plan plan = planned(problem_of(shape));
  EXPECT_EQ(plan.task_queries, 16);
  EXPECT_EQ(plan.tasks, 2 * 2 * 6 * 5);
}

// Neither batch nor heads nor keys decide, so that a row has the same bits in any company.
TEST(DecodePlan, BfloatScoresAreSumsOfPairs) {
  const auto why = [](Problem p, Arithmetic best, std::int64_t lanes = 16) {
    const Plan plan = planned(p, {"invented", lanes, 1, best});
    EXPECT_EQ(plan.kernel, Kernel::kDecode);
    EXPECT_EQ(plan.arithmetic == Arithmetic::kPairs,
              plan.why_arithmetic == "scores are sums of pairs of bfloat16");
    return std::string(plan.why_arithmetic);
  };
  Problem p = problem_of(kOneQuery, DType::kBfloat16);
  EXPECT_EQ(why(p, Arithmetic::kPairs), "scores are sums of pairs of bfloat16");
  EXPECT_EQ(why(p, Arithmetic::kFloat32), "the target multiplies float32 alone");
  EXPECT_EQ(why(p, Arithmetic::kTiles), "few queries do not fill tiles of bfloat16");
  p.scale = 0x1p21f;
  EXPECT_EQ(why(p, Arithmetic::kPairs),
            "with this scale products of bfloat16 could leave the range of float32");
  p = problem_of(kOneQuery, DType::kBfloat16);
  p.out.dtype = DType::kFloat32, p.k.stride[3] = 2, p.value_dim = 40;
  EXPECT_EQ(why(p, Arithmetic::kPairs), "scores are sums of pairs of bfloat16");
  p.dim = 80;
  EXPECT_EQ(why(p, Arithmetic::kPairs),
            "the head dimension is no whole number of vectors of pairs");
}

struct Against {
  const char* why;
  void (*ask)(Problem& p);
};

constexpr const char* kOptions =
    "few queries, but the decode kernel has no mask, bias, alibi or softcap";
constexpr Against kAgainst[] = {
    {"the queries of a head fill strips", [](Problem& p) { p.queries = 9; }},
    {"batch-invariant calls have one kernel for any number of queries",
     [](Problem& p) { p.batch_invariant = true; }},
    {kOptions, [](Problem& p) { p.mask = present(); }},
    {kOptions, [](Problem& p) { p.bias = present(); }},
    {kOptions, [](Problem& p) { p.alibi = present(); }},
    {kOptions, [](Problem& p) { p.softcap = 30; }},
    {"few queries, but the head dimension is too long for the sums of the decode kernel",
     [](Problem& p) { p.dim = 513; }},
};

TEST(DecodePlan, SaysWhatSpeaksAgainstIt) {
  for (const Against& row : kAgainst) {
    Problem p = problem_of(kOneQuery);
    row.ask(p);
    EXPECT_EQ(planned(p).kernel, Kernel::kTiled) << row.why;
    EXPECT_EQ(planned(p).why_kernel, row.why);
  }
  const Device scalar{.target = "scalar", .lanes = 1, .threads = 1};
  Problem p = problem_of(kOneQuery);
  EXPECT_EQ(planned(p, scalar).why_kernel, "the queries of a head fill strips");
  EXPECT_EQ(make_plan(p, Backend::kStandard, kWide).kernel, Kernel::kTiled);
}

TEST(DecodePlan, OtherOptionsAreDone) {
  Problem p = problem_of(kOneQuery, DType::kFloat16);
  for (core::Tensor* option :
       {&p.sink, &p.kv_lengths, &p.kv_starts, &p.cache_batch_idx, &p.offsets, &p.lse})
    *option = present();
  p.left = 128, p.right = 0, p.queries = 8;
  EXPECT_EQ(planned(p).kernel, Kernel::kDecode);
}

TEST(DecodePlan, CopiesWhatRegistersCannotRead) {
  const auto why = [](const Problem& p, std::int64_t lanes) {
    const Plan plan = planned(p, {"invented", lanes, 1});
    EXPECT_EQ(plan.kernel, Kernel::kDecode);
    EXPECT_EQ(plan.packing == Packing::kNone, plan.why_packing == "k and v are read as they lie");
    return std::string(plan.why_packing);
  };
  Problem p = problem_of(kOneQuery, DType::kFloat16);
  EXPECT_EQ(why(p, 16), "k and v are read as they lie");
  EXPECT_EQ(why(p, 4), "the target cannot read float16");
  p.value_dim = 40;
  EXPECT_EQ(why(p, 8), "k and v are read as they lie");
  EXPECT_EQ(why(p, 16), "a head dimension is no whole number of vectors");
  p.k.stride[3] = 2;
  EXPECT_EQ(why(p, 8), "the last dimension of k or v has a stride");
}

}  // namespace
}  // namespace tessera::plan
