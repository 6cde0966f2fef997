// TESSERA_BATCH_INVARIANT: the bits of a row depend on its own query, keys and options alone.
#include "support/law.hpp"

namespace tessera::test {
namespace {

class BatchInvariance : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, BatchInvariance, testing::ValuesIn(names_with_gpu()), parameter_name);

// Standard attention refuses the flag.
bool is_comparison(const Backend& on) { return on.name.starts_with("standard"); }

// Index `at` of dimension `axis` alone, if the tensor distinguishes it.
Array cut(const Array& a, std::size_t axis, std::int64_t at) {
  if (!a.present() || a.shape()[axis] == 1) return a;
  Index4 shape = a.shape();
  shape[axis] = 1;
  Array result(a.dtype(), shape);
  result.fill([&](Index4 i) {
    i[axis] = at;
    return a.at(i[0], i[1], i[2], i[3]);
  });
  return result;
}

// The call of query i alone, for every sequence and head.
Inputs query_alone(const Inputs& in, std::int64_t i) {
  Inputs one = in;
  one.of.queries = 1;
  one.q = cut(in.q, 1, i);
  one.mask = cut(in.mask, 2, i);
  one.bias = cut(in.bias, 2, i);
  one.of.align = TESSERA_ALIGN_OFFSETS;
  one.of.offset = 0;
  one.offsets = Array(DType::kInt64, {in.of.batch, 1, 1, 1});
  one.offsets.fill([&](const Index4& b) { return double(in.of.diagonal(b[0]) + i); });
  return one;
}

testing::AssertionResult row_is_same(const Outputs& alone, const Outputs& all, std::int64_t i) {
  for (std::int64_t b = 0; b < all.out.shape()[0]; ++b)
    for (std::int64_t h = 0; h < all.out.shape()[2]; ++h) {
      for (std::int64_t d = 0; d < all.out.shape()[3]; ++d)
        if (alone.out.at(b, 0, h, d) != all.out.at(b, i, h, d))
          return testing::AssertionFailure()
                 << "row " << i << ", head " << h << ", element " << d << ": "
                 << alone.out.at(b, 0, h, d) << " alone, " << all.out.at(b, i, h, d);
      if (all.lse.present() && alone.lse.at(b, h, 0) != all.lse.at(b, h, i))
        return testing::AssertionFailure() << "lse of row " << i << ", head " << h;
    }
  return testing::AssertionSuccess();
}

TEST_P(BatchInvariance, a_query_alone_gives_the_bits_that_it_gives_among_others) {
  const auto make = [](Dice& dice) { return random_case(dice, {.work = 200'000}); };
  for_cases(4, make, [](const Backend& on, const Case& c) {
    if (c.batch == 0 || c.queries == 0 || c.heads == 0 || is_comparison(on)) return;
    const Inputs in(c);
    const Outputs all = run_invariant(on, in);
    EXPECT_TRUE(is_right(all, in, on));
    for (const std::int64_t i : {std::int64_t{0}, c.queries / 2, c.queries - 1})
      EXPECT_TRUE(row_is_same(run_invariant(on, query_alone(in, i)), all, i));
  });
}

// The first `count` rows of keys.
Array first_rows(const Array& a, std::int64_t count) {
  Array rows(a.dtype(), {a.shape()[0], count, a.shape()[2], a.shape()[3]});
  rows.fill([&](const Index4& i) { return a.at(i[0], i[1], i[2], i[3]); });
  return rows;
}

TEST_P(BatchInvariance, decoding_row_by_row_gives_the_bits_of_prefill) {
  const auto make = [](Dice& dice) {
    Case c = random_plain_case(dice, {.work = 200'000, .sizes_of_zero = false});
    c.queries = c.keys = std::min<std::int64_t>(c.keys, 150);
    c.right = 0;
    c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    return c;
  };
  for_cases(3, make, [](const Backend& on, const Case& c) {
    if (is_comparison(on)) return;
    const Inputs in(c);
    const Outputs prefill = run_invariant(on, in);
    for (std::int64_t i = 0; i < c.keys; i += 1 + c.keys / 5) {
      Inputs step = in;
      step.of.queries = 1;
      step.of.keys = i + 1;
      step.q = cut(in.q, 1, i);
      step.k = first_rows(in.k, i + 1);
      step.v = first_rows(in.v, i + 1);
      EXPECT_TRUE(row_is_same(run_invariant(on, step), prefill, i));
    }
  });
}

}  // namespace
}  // namespace tessera::test
