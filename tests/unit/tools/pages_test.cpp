// What `--page-size` and `--cache-batch-idx` make is what the laws compute: the command of a
// failure repeats it.
#include "tools/tessera/pages.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/inputs.hpp"
#include "tools/tessera/array.hpp"
#include "tools/tessera/inputs.hpp"

namespace tessera::test {
namespace {

Case paged_case(std::int64_t page_size) {
  Case c{.batch = 3, .queries = 4, .keys = 13, .heads = 4, .kv_heads = 2, .dim = 5, .value_dim = 3};
  c.seed = 21;
  c.page_size = page_size;
  c.kv_lengths = {13, 0, 7};
  return c;
}

tool::Inputs loaded(const Case& c) {
  tool::Source source;
  source.shape = tool::Shape{c.batch, c.queries, c.keys, c.heads, c.kv_heads, c.dim, c.value_dim};
  source.seed = c.seed;
  tool::AttentionOptions options;
  options.page_size = c.page_size;
  options.kv_lengths = "13,0,7";
  return tool::load_inputs(source, options);
}

void expect_same(const tool::Array& ours, const Array& theirs, const char* name) {
  ASSERT_EQ(ours.tensor.shape, theirs.shape()) << name;
  theirs.for_each([&](const Index4& i) {
    ASSERT_EQ(ours.tensor.load(i), theirs.at(i[0], i[1], i[2], i[3])) << name;
  });
}

TEST(Pages, AreThoseOfTheLaws) {
  for (const std::int64_t page_size : {1, 2, 5, 13, 16}) {
    const Case c = paged_case(page_size);
    const Inputs want(c);
    const tool::Inputs got = loaded(c);
    expect_same(got.q, want.q, "q");
    expect_same(got.k, want.k, "k");
    expect_same(got.v, want.v, "v");
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t n = 0; n < c.pages_of_a_sequence(); ++n)
        EXPECT_EQ(got.block_table.tensor.load_int(b, n), std::int64_t(want.table.at(b, n)));
    EXPECT_EQ(tool::shape_of(got).keys, c.keys);
  }
}

TEST(CacheRows, AreThoseOfTheLaws) {
  Case c = paged_case(0);
  c.kv_lengths.clear();
  c.cache_rows = {4, 0, 1};  // of five: the laws have two more rows than sequences
  tool::Source source;
  source.shape = tool::Shape{c.batch, c.queries, c.keys, c.heads, c.kv_heads, c.dim, c.value_dim};
  source.seed = c.seed;
  tool::AttentionOptions options;
  options.cache_batch_idx = "4,0,1";
  const Inputs want(c);
  const tool::Inputs got = tool::load_inputs(source, options);
  EXPECT_EQ(got.cache_batch_idx.tensor.dtype, core::DType::kInt32);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t j = 0; j < c.keys; ++j) {
      const std::int64_t row = got.cache_batch_idx.tensor.load_int(b);
      EXPECT_EQ(row, std::int64_t(want.cache_rows.at(b)));
      EXPECT_EQ(got.k.tensor.load(row, j, 1, 2), want.k.at(row, j, 1, 2));
      EXPECT_EQ(got.v.tensor.load(row, j, 1, 2), want.v.at(row, j, 1, 2));
    }
}

TEST(Pages, HoldTheDenseKeysAndZeros) {
  const Case c = paged_case(4);
  Case dense = c;
  dense.page_size = 0;
  const Inputs want(dense);
  const tool::Inputs got = loaded(c);
  std::int64_t keys = 0, slots = 0;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t j = 0; j < 16; ++j) {
      const std::int64_t page = got.block_table.tensor.load_int(b, j / 4);
      const double x = got.k.tensor.load(page, j % 4, 1, 2);
      EXPECT_EQ(x, j < c.keys ? want.k.at(b, j, 1, 2) : 0);
      ++(j < c.keys ? keys : slots);
    }
  EXPECT_EQ(keys, 39);
  EXPECT_EQ(slots, 9);
}

}  // namespace
}  // namespace tessera::test
