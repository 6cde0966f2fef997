// The planner of GPUs: what it decides, for GPUs that need not exist.
#include "plan/gpu.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.hpp"
#include "plan/plan.hpp"

namespace tessera::test {
namespace {

using core::DType;
using core::Problem;
using plan::Gpu;
using plan::GpuPlan;
using testing::HasSubstr;

const Gpu kHopper{.name = "Hopper", .arch = 90, .multiprocessors = 132, .shared_bytes = 232448};
const Gpu kAda{.name = "Ada", .arch = 89, .multiprocessors = 128, .shared_bytes = 101376};

Problem problem(std::int64_t dim = 128) {
  Problem p;
  p.batch = 2, p.heads = 8, p.kv_heads = 2, p.queries = 1000, p.keys = 3000;
  p.dim = p.value_dim = dim;
  for (core::Tensor* t : {&p.q, &p.k, &p.v, &p.out}) t->dtype = DType::kBfloat16;
  return p;
}

TEST(GpuPlanner, writes_its_plan_as_json) {
  EXPECT_EQ(
      to_json(make_gpu_plan(problem(), kHopper), problem(), kHopper),
      R"({"backend":"cuda","target":"Hopper","arch":90,"kernel":"forward_sm80_bfloat16_d128_band",)"
      R"("why_kernel":"a band, lengths and rows of whole 16 bytes; every GPU since Ampere",)"
      R"("grid":[8,8,2],)"
      R"("threads":128,"shared_bytes":66048,"tile_queries":128,"tile_keys":32,"stages":2,)"
      R"("workspace_bytes":0,"problem":)" +
          plan::to_json(problem()) + "}");
}

TEST(GpuPlanner, takes_the_smallest_kernel_that_holds_both_dimensions) {
  struct Row {
    std::int64_t dim, value_dim;
    int kernel;
  };
  for (const Row& row :
       {Row{1, 1, 64}, Row{64, 64, 64}, Row{65, 1, 128}, Row{1, 128, 128}, Row{129, 64, 256},
        Row{256, 256, 256}, Row{257, 1, 512}, Row{1, 512, 512}}) {
    Problem p = problem(row.dim);
    p.value_dim = row.value_dim;
    EXPECT_EQ(make_gpu_plan(p, kAda).kernel.dim, row.kernel);
  }
}

TEST(GpuPlanner, takes_the_kernel_of_a_band_only_where_it_does_all_of_a_call) {
  using enum device::Weighing;
  const auto weighing = [](const Problem& p) { return make_gpu_plan(p, kAda).kernel.weighing; };
  EXPECT_EQ(weighing(problem()), kBand);
  Problem p = problem();
  p.softcap = 30;
  EXPECT_EQ(weighing(p), kRounded);
  p = problem();
  p.dropout.p = 0.5;
  EXPECT_EQ(weighing(p), kRounded);
  p = problem();
  p.k.stride[3] = 2;
  p.k.shape = {2, 3000, 2, 128};
  EXPECT_EQ(weighing(p), kRounded) << "rows that 16-byte copies cannot read";
  p = problem();
  p.batch = p.queries = 1;
  EXPECT_EQ(weighing(p), kExact) << "few rows";
  p = problem();
  p.batch_invariant = true;
  EXPECT_EQ(weighing(p), kExact);
  p = problem();
  p.out.dtype = DType::kFloat32;
  EXPECT_EQ(weighing(p), kExact);
  for (core::Tensor* t : {&p.q, &p.k, &p.v}) t->dtype = DType::kFloat32;
  EXPECT_EQ(weighing(p), kFloat32);
}

TEST(GpuPlanner, takes_the_kernel_of_pairs_where_copies_can_read_them) {
  using enum device::Weighing;
  const auto weighing = [](const Problem& p) { return make_gpu_plan(p, kAda).kernel.weighing; };
  alignas(16) std::uint8_t data[32] = {};
  Problem p = problem();
  const core::Tensor pairs{data, {1, 1, p.queries, p.keys}, {0, 0, 3008, 1}, DType::kBool};
  p.mask = pairs;
  EXPECT_EQ(weighing(p), kPairs);
  p.mask.stride[2] = 3000;
  EXPECT_EQ(weighing(p), kRounded) << "rows that 16-byte copies cannot read";
  p.mask = pairs;
  p.mask.data = data + 1;
  EXPECT_EQ(weighing(p), kRounded);
  p.mask = pairs;
  p.mask.shape[3] = 1, p.mask.stride[3] = 0;
  EXPECT_EQ(weighing(p), kRounded) << "one element for all keys";
  p = problem();
  p.bias = pairs;
  p.bias.dtype = DType::kBfloat16;
  EXPECT_EQ(weighing(p), kPairs);
  p.bias.dtype = DType::kFloat32;
  EXPECT_EQ(weighing(p), kRounded) << "a bias of another type than q";
  p.bias.dtype = DType::kBfloat16;
  p.mask = pairs;
  EXPECT_EQ(weighing(p), kRounded) << "both";
  p = problem(256);
  p.mask = pairs;
  EXPECT_EQ(weighing(p), kRounded);
}

TEST(GpuPlanner, has_a_block_for_each_tile_head_and_sequence) {
  for (const std::int64_t queries : {0, 8, 128, 129, 1000}) {
    Problem p = problem();
    p.queries = queries;
    EXPECT_EQ(make_gpu_plan(p, kHopper).grid.x, (queries + 127) / 128);
  }
  Problem packed = problem();
  std::int32_t boundaries[3] = {};
  packed.cu_seqlens_q.data = boundaries;
  EXPECT_EQ(make_gpu_plan(packed, kHopper).grid.z, 3) << "one clears the rows of no sequence";
  Problem none = problem();
  none.batch = 0;
  EXPECT_TRUE(make_gpu_plan(none, kHopper).empty());
}

TEST(GpuPlanner, decides_the_same_for_every_gpu_that_can) {
  EXPECT_EQ(make_gpu_plan(problem(), kHopper), make_gpu_plan(problem(), kAda));
}

TEST(GpuPlanner, names_each_kernel_by_its_key) {
  EXPECT_EQ(plan::name_of(
                {device::Direction::kForward, 80, DType::kFloat16, 64, device::Weighing::kExact}),
            "forward_sm80_float16_d64_exact");
}

std::string why_not(const Problem& p, const Gpu& gpu = kHopper) {
  const std::string why = refusal(p, gpu);
  try {
    make_gpu_plan(p, gpu);
    EXPECT_EQ(why, "");
  } catch (const core::Error& e) {
    EXPECT_EQ(e.status(), core::Status::kUnsupported);
    EXPECT_EQ(e.what(), why);
  }
  return why;
}

TEST(GpuPlanner, refuses_old_and_small_gpus_by_name) {
  EXPECT_EQ(why_not(problem()), "");
  EXPECT_EQ(why_not(problem(), {.name = "Turing", .arch = 75, .shared_bytes = 65536}),
            "Turing has compute capability 7.5, but the kernels need 8.0 (Ampere) or newer; use "
            "the CPU backend");
  EXPECT_EQ(why_not(problem(), {.name = "Tiny", .arch = 80, .shared_bytes = 49152}),
            "a block of the kernel for head dimension 128 needs 66048 bytes of shared memory, but "
            "Tiny has 49152; use the CPU backend");
}

std::string grid_of(std::int64_t heads, std::int64_t batch, const Gpu& gpu = kHopper) {
  Problem p = problem();
  p.heads = p.kv_heads = heads;
  p.batch = batch;
  const device::Index3 grid = make_gpu_plan(p, gpu).grid;
  return std::to_string(grid.x) + " " + std::to_string(grid.y) + " " + std::to_string(grid.z);
}

// 65,535 blocks along y and z are all that a GPU has.
TEST(GpuPlanner, counts_heads_and_sequences_through_where_one_of_them_has_no_room) {
  EXPECT_EQ(grid_of(65535, 65535 / 2), "8 65535 32767");
  EXPECT_EQ(grid_of(65536, 1), "8 32768 2");
  EXPECT_EQ(grid_of(1, 65536), "8 32768 2");
  EXPECT_EQ(grid_of(3, 70000), "8 52500 4");
  EXPECT_EQ(grid_of(2147483647, 1), "8 65535 32769");
  EXPECT_EQ(grid_of(8, 65536,
                    {.name = "Wide", .arch = 90, .shared_bytes = 1 << 17, .grid_rows = 1 << 20}),
            "8 8 65536");
  EXPECT_EQ(grid_of(7, 3, {.name = "Narrow", .arch = 90, .shared_bytes = 1 << 17, .grid_rows = 5}),
            "8 5 5");
  Problem none = problem();
  none.heads = none.kv_heads = 65536;
  none.batch = 0;
  EXPECT_TRUE(make_gpu_plan(none, kHopper).empty());
}

TEST(GpuPlanner, has_a_block_for_each_of_them) {
  for (const std::int64_t rows : {3, 4, 5, 7})
    for (std::int64_t heads = 1; heads <= rows * rows; ++heads)
      for (std::int64_t batch = 1; heads * batch <= rows * rows; ++batch) {
        Problem p = problem();
        p.heads = p.kv_heads = heads;
        p.batch = batch;
        const Gpu gpu{.name = "Narrow", .arch = 90, .shared_bytes = 1 << 17, .grid_rows = rows};
        const device::Index3 grid = make_gpu_plan(p, gpu).grid;
        EXPECT_LE(std::max(grid.y, grid.z), rows);
        EXPECT_GE(grid.y * grid.z, heads * batch);
        EXPECT_LT(grid.y * grid.z, heads * batch + rows) << "few of them idle";
      }
}

TEST(GpuPlanner, refuses_grids_that_no_gpu_has) {
  Problem p = problem();
  p.batch = std::int64_t{1} << 28;
  EXPECT_EQ(why_not(p),
            "q has 8 heads of 268435456 sequences, and a GPU takes 2147483647 together "
            "in one call; cut the batch into calls");
  --p.batch;
  EXPECT_EQ(why_not(p), "");
  std::int32_t boundary = 0;
  p.cu_seqlens_q.data = &boundary;
  EXPECT_THAT(why_not(p), HasSubstr("cut the batch into calls")) << "one sequence more";
  p = problem();
  p.queries = std::int64_t{128} << 31;
  EXPECT_THAT(why_not(p), HasSubstr("cut them into calls"));
}

TEST(GpuPlanner, refuses_what_the_kernels_do_not_do) {
  Problem p = problem();
  p.q.dtype = DType::kFloat64;
  EXPECT_THAT(why_not(p), HasSubstr("not float64"));
  p = problem(513);
  EXPECT_THAT(why_not(p), HasSubstr("up to 512, not 513"));
}

}  // namespace
}  // namespace tessera::test
