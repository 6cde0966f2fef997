#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::core {
namespace {

TEST(Tensor, AbsentAndEmptyDiffer) {
  Tensor t;
  EXPECT_FALSE(t.present());
  EXPECT_FALSE(t.empty());
  t.shape = {2, 0, 3, 4};
  EXPECT_TRUE(t.empty());
}

TEST(Tensor, StridesMayBeZeroOrNegative) {
  std::vector<float> memory{0, 1, 2, 3, 4, 5};
  Tensor t{memory.data() + 5, {2, 3, 7, 1}, {-3, -1, 0, 1}, DType::kFloat32};
  EXPECT_EQ(t.load(0), 5);
  EXPECT_EQ(t.load(1, 2, 6), 0);
  EXPECT_EQ(t.load(Index4{0, 1, 3, 0}), 4);
  t.store({1, 0, 0, 0}, 9);
  EXPECT_EQ(memory[2], 9);
}

TEST(Tensor, OffsetsPastFourGibiElements) {
  const std::int64_t far = std::int64_t{3} << 31;
  const Tensor t{nullptr, {4, 2, 1, 1}, {far, far + 1, 1, 1}, DType::kFloat64};
  EXPECT_EQ(t.offset(3, 1), 4 * far + 1);
}

TEST(Tensor, IntegersOfBothSizes) {
  const std::int32_t narrow[] = {1, -2, 3};
  const std::int64_t wide[] = {std::int64_t{1} << 40, -2};
  const Tensor a{const_cast<std::int32_t*>(narrow), {3, 1, 1, 1}, {1, 1, 1, 1}, DType::kInt32};
  const Tensor b{const_cast<std::int64_t*>(wide), {2, 1, 1, 1}, {1, 1, 1, 1}, DType::kInt64};
  EXPECT_EQ(a.load_int(1), -2);
  EXPECT_EQ(b.load_int(0), std::int64_t{1} << 40);
}

class RowsOf : public testing::TestWithParam<DType> {};

TEST_P(RowsOf, LoadAndStoreAsElementsDo) {
  std::vector<double> memory(40);
  const Tensor t{memory.data() + 20, {1, 2, 1, 4}, {1, 5, 1, -2}, GetParam()};
  const std::vector<double> row{1. / 3, -2.5, 0, 1e30};
  store_row(t, {0, 1}, row);
  std::vector<double> back(4);
  load_row(t, {0, 1}, back);
  for (std::int64_t d = 0; d < 4; ++d) {
    double element = 0;
    store_element(GetParam(), &element, row[std::size_t(d)]);
    EXPECT_EQ(back[std::size_t(d)], load_element(GetParam(), &element));
    EXPECT_EQ(back[std::size_t(d)], t.load(0, 1, 0, d));
  }
}

INSTANTIATE_TEST_SUITE_P(Tensor, RowsOf,
                         testing::Values(DType::kFloat16, DType::kBfloat16, DType::kFloat32,
                                         DType::kFloat64),
                         [](const auto& about) { return std::string(name_of(about.param)); });

}  // namespace
}  // namespace tessera::core
