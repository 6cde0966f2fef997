// The planner of GPUs: what it decides, for GPUs that need not exist.
#include "plan/gpu.hpp"

#include <gmock/gmock.h>

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
      R"("threads":128,"shared_bytes":65552,"tile_queries":128,"tile_keys":32,"stages":2,)"
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
  p = problem();
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
  const core::Tensor pairs{data, {1, 1, 1000, 3008}, {0, 0, 3008, 1}, DType::kBool};
  Problem p = problem();
  p.mask = pairs;
  EXPECT_EQ(weighing(p), kPairs);
  p.mask.stride[2] = 3000;
  EXPECT_EQ(weighing(p), kRounded) << "rows that 16-byte copies cannot read";
  p.mask = pairs;
  p.mask.data = data + 1;
  EXPECT_EQ(weighing(p), kRounded);
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
            "a block of the kernel for head dimension 128 needs 65552 bytes of shared memory, but "
            "Tiny has 49152; use the CPU backend");
}

TEST(GpuPlanner, refuses_grids_that_no_gpu_has) {
  Problem p = problem();
  p.heads = 65536;
  EXPECT_THAT(why_not(p), HasSubstr("65535 heads in one call, not 65536"));
  p = problem();
  p.batch = 65535;
  EXPECT_EQ(why_not(p), "");
  std::int32_t boundary = 0;
  p.cu_seqlens_q.data = &boundary;
  EXPECT_THAT(why_not(p), HasSubstr("65534 sequences in one call, not 65535"));
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
