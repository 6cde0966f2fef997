// More heads or sequences than a grid has room for along y and z: a GPU with little room stands for
// calls that are too large to emulate.
#include <gtest/gtest.h>

#include "api/convert.hpp"
#include "emulator/backend.hpp"
#include "support/compare.hpp"
#include "support/law.hpp"
#include "support/seed.hpp"

namespace tessera::test {
namespace {

plan::Gpu with_rows(std::int64_t rows) {
  plan::Gpu gpu = emulator::kGpu;
  gpu.grid_rows = rows;
  return gpu;
}

Outputs run_on(const plan::Gpu& gpu, const Inputs& in) {
  Outputs outputs(in.of);
  const auto call = api::convert(describe(in, outputs), api::Purpose::kRun);
  emulator::run(call.problem, test_seed(), gpu);
  return outputs;
}

// Each of the kernels: a band, options, few rows of float32, float32.
std::vector<Case> of_each_kernel(const Case& c) {
  std::vector<Case> all(4, c);
  for (Case& one : all) one.dtype = DType::kBfloat16;
  all[1].softcap = 5;
  all[2].wide_out = true;
  all[3].dtype = DType::kFloat32;
  return all;
}

Case packed(Case c) {
  for (std::int64_t b = 0; b <= c.batch; ++b) c.cu_q.push_back(b * 11 - b % 2 * 4);
  c.spare_rows = 6;
  return c;
}

void expect_the_same(const Case& c) {
  const plan::Gpu small = with_rows(6);
  for (const Case& one : of_each_kernel(c)) {
    const Inputs in(one);
    EXPECT_TRUE(same_bits(run_on(small, in), run_on(emulator::kGpu, in)))
        << backend("emulator/sm80").command(one);
  }
}

TEST(FoldedGrid, heads_that_have_no_room) {
  const Case c{
      .batch = 3, .queries = 15, .keys = 20, .heads = 7, .kv_heads = 7, .dim = 8, .value_dim = 8};
  expect_the_same(c);          // 21 of 6 x 4 blocks
  expect_the_same(packed(c));  // 28 of 6 x 5
}

TEST(FoldedGrid, sequences_that_have_no_room) {
  const Case c{
      .batch = 10, .queries = 15, .keys = 20, .heads = 2, .kv_heads = 1, .dim = 8, .value_dim = 8};
  expect_the_same(c);          // 20 of 5 x 4
  expect_the_same(packed(c));  // 22 of 6 x 4
}

}  // namespace
}  // namespace tessera::test
