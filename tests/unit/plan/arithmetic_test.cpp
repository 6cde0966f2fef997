// Which calls are multiplied as bfloat16, and what that changes of a plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan.hpp"
#include "unit/plan/problems.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;
using test::problem_of;
using test::Shape;

constexpr Shape kUsual{.batch = 1,
                       .queries = 2048,
                       .keys = 2048,
                       .heads = 8,
                       .kv_heads = 8,
                       .dim = 64,
                       .value_dim = 64};

constexpr const char* kNoBfloat16 = "q, k and v are not bfloat16";
constexpr const char* kOnlyFloat32 = "the target multiplies float32 alone";
constexpr const char* kInFloat32 = "standard attention is computed in float32";
constexpr const char* kScale =
    "with this scale products of bfloat16 could leave the range of float32";
constexpr const char* kIsBfloat16 = "q, k and v are bfloat16";

struct Products {
  DType dtype;
  Arithmetic best;
  Backend backend;
  float scale;
  Arithmetic arithmetic;
  const char* why;
};

constexpr Arithmetic kF = Arithmetic::kFloat32, kP = Arithmetic::kPairs, kT = Arithmetic::kTiles;
constexpr Products kProducts[] = {
    {DType::kBfloat16, kP, Backend::kCpu, 0.125f, kP, kIsBfloat16},
    {DType::kBfloat16, kT, Backend::kCpu, 0.125f, kT, kIsBfloat16},
    {DType::kBfloat16, kF, Backend::kCpu, 0.125f, kF, kOnlyFloat32},
    {DType::kFloat16, kT, Backend::kCpu, 0.125f, kF, kNoBfloat16},
    {DType::kFloat32, kP, Backend::kCpu, 0.125f, kF, kNoBfloat16},
    {DType::kBfloat16, kP, Backend::kStandard, 0.125f, kF, kInFloat32},
    {DType::kBfloat16, kT, Backend::kCpu, 0x1p-20f, kT, kIsBfloat16},
    {DType::kBfloat16, kT, Backend::kCpu, 0x1p20f, kT, kIsBfloat16},
    {DType::kBfloat16, kT, Backend::kCpu, 0x1p-21f, kF, kScale},
    {DType::kBfloat16, kP, Backend::kCpu, 0x1p21f, kF, kScale},
    {DType::kBfloat16, kP, Backend::kCpu, 0, kF, kScale},
};

TEST(Planner, ArithmeticAndWhy) {
  for (std::size_t n = 0; n < std::size(kProducts); ++n) {
    const Products& row = kProducts[n];
    Problem p = problem_of(kUsual, row.dtype);
    p.scale = row.scale;
    const Plan plan = make_plan(p, row.backend, {"invented", 16, 2, row.best});
    EXPECT_EQ(plan.arithmetic, row.arithmetic) << "row " << n;
    EXPECT_EQ(plan.why_arithmetic, row.why) << "row " << n;
  }
}

// Pairs of 65 dimensions are 33 words, tiles three times 16; panels of 33 columns are 64.
TEST(Planner, PairsAndTilesAreAlwaysPackedAndSaveSpace) {
  Shape shape = kUsual;
  shape.dim = 65, shape.value_dim = 33;
  const auto bytes = [&](Arithmetic arithmetic, const char* why) {
    const Plan plan = make_plan(problem_of(shape, DType::kBfloat16), Backend::kCpu,
                                {"invented", 16, 2, arithmetic});
    EXPECT_EQ(plan.packing, Packing::kHead);
    EXPECT_EQ(plan.why_packing, why);
    return plan.worker_bytes;
  };
  const auto want = [](std::int64_t steps, std::int64_t v_words) {
    const std::int64_t strips = 2 * (steps + 64) * 32, scores = 104 * 32;
    const std::int64_t row = (std::max<std::int64_t>(4 * steps, 128) + 31) / 32 * 32;
    const std::int64_t packed = 22 * (96 * (steps + v_words) + 2);
    return (4 * (strips + scores + row + packed) + 63) / 64 * 64;
  };
  EXPECT_EQ(bytes(kF, "16-bit keys and values are widened to float32"), want(65, 64));
  EXPECT_EQ(bytes(kP, "the values of two keys are interleaved"), want(33, 32));
  EXPECT_EQ(bytes(kT, "values are transposed"), want(48, 32));
}

}  // namespace
}  // namespace tessera::plan
