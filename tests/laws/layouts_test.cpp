// However sequences lie, packed, paged or in rows of a cache, each gives what it gives alone.
#include <algorithm>
#include <vector>

#include "support/law.hpp"

namespace tessera::test {
namespace {

class Layouts : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Layouts, testing::ValuesIn(names_with_gpu()), parameter_name);

const Limits kSmall{.work = 400'000, .sizes_of_zero = false};

Case laid_out_call(Dice& dice) {
  Case c = random_call(dice, kSmall);
  while (c.dense()) c = random_call(dice, kSmall);
  c.dropout = 0;    // knows the number of a sequence
  c.state = false;  // lies as the output does
  return c;
}

// ---- One sequence as a dense call of its own ----

// The entries of a mask or bias that sequence b reads.
Array pairs_of(const Array& a, const Case& c, std::int64_t b) {
  if (!a.present()) return a;
  const Index4& shape = a.shape();
  const std::int64_t queries = c.queries_of(b), keys = c.end_of_keys(b);
  Array cut(a.dtype(), {1, shape[1], shape[2] == 1 ? 1 : queries, shape[3] == 1 ? 1 : keys});
  cut.fill([&](const Index4& i) { return a.at(shape[0] == 1 ? 0 : b, i[1], i[2], i[3]); });
  return cut;
}

Array integer(std::int64_t x) {
  Array a(DType::kInt64, {1, 1, 1, 1});
  a.set({}, double(x));
  return a;
}

Array slopes_of(const Inputs& in, std::int64_t b) {
  if (!in.of.alibi_by_batch) return in.alibi;
  Array a(DType::kFloat32, {1, in.of.heads, 1, 1});
  a.fill([&](const Index4& i) { return in.alibi.at(b, i[1]); });
  return a;
}

// Without sizes of 0, which a dense call has as well, but a mask of that size has no data.
Inputs alone(const Inputs& in, std::int64_t b) {
  Case c = in.of;
  const std::int64_t queries = c.queries_of(b), keys = c.end_of_keys(b);
  c.batch = 1, c.queries = queries, c.keys = keys;
  c.q_layout = c.k_layout = c.v_layout = c.out_layout = Layout::kDense;
  c.cu_q.clear(), c.cu_k.clear(), c.used_q.clear(), c.used_k.clear(), c.cache_rows.clear();
  c.kv_lengths.clear(), c.kv_starts.clear(), c.offsets.clear();
  c.page_size = 0;
  c.mask = MaskKind::kNone, c.bias = BiasKind::kNone, c.alibi = c.sink = false;
  Inputs one(c);
  one.q.fill([&](const Index4& i) {
    const Place at = in.query_at(b, i[1]);
    return in.q.at(at.batch, at.row, i[2], i[3]);
  });
  for (const auto& [to, from] : {std::pair{&one.k, &in.k}, {&one.v, &in.v}})
    to->fill([&, source = from](const Index4& i) {
      const Place at = in.key_at(b, i[1]);
      return source->at(at.batch, at.row, i[2], i[3]);
    });
  one.mask = pairs_of(in.mask, in.of, b);
  one.bias = pairs_of(in.bias, in.of, b);
  one.alibi = slopes_of(in, b);
  one.sink = in.sink;
  if (!in.of.kv_starts.empty()) one.kv_starts = integer(in.of.first_key(b));
  if (!in.of.offsets.empty()) one.offsets = integer(in.of.offsets[std::size_t(b)]);
  return one;
}

TEST_P(Layouts, a_sequence_gives_the_bits_that_it_gives_alone) {
  for_cases(12, laid_out_call, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    const Outputs together = run_invariant(on, in);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      if (c.queries_of(b) == 0 || c.end_of_keys(b) == 0) continue;
      const Outputs single = run_invariant(on, alone(in, b));
      single.out.for_each([&](const Index4& i) {
        const Place at = in.query_at(b, i[1]);
        ASSERT_EQ(together.out.at(at.batch, at.row, i[2], i[3]), single.out.at(0, i[1], i[2], i[3]))
            << "sequence " << b << ", row " << i[1] << ", head " << i[2];
      });
    }
  });
}

// ---- Rows of no sequence ----

Case packed_call(Dice& dice) {
  Case c = random_call(dice, kSmall);
  while (c.cu_q.empty()) c = random_call(dice, kSmall);
  c.spare_rows = 3;
  c.lse = c.sink = true;  // a sink is no key: it says nothing of rows that are no query
  return c;
}

TEST_P(Layouts, rows_of_no_sequence_are_written_with_zeros_and_minus_infinity) {
  for_cases(8, packed_call, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    const Outputs got = run(on, in);
    std::vector<bool> used(std::size_t(c.q_shape()[1]));
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t i = 0; i < c.queries_of(b); ++i)
        used[std::size_t(in.query_at(b, i).row)] = true;
    got.lse.for_each([&](const Index4& at) {
      if (used[std::size_t(at[2])]) return;
      EXPECT_EQ(got.lse.at(0, at[1], at[2]), -INFINITY) << at[2];
      for (std::int64_t d = 0; d < c.value_dim; ++d)
        EXPECT_EQ(got.out.at(0, at[2], at[1], d), 0) << at[2];
    });
  });
}

TEST_P(Layouts, without_sequences_every_row_is_written) {
  Case c{.batch = 0, .queries = 4, .keys = 4, .heads = 2, .kv_heads = 2, .dim = 8, .value_dim = 8};
  c.cu_q = c.cu_k = {0};
  c.spare_rows = 5;
  for_case(c, [](const Backend& on, const Case& empty) {
    const Outputs got = run(on, Inputs(empty));
    for (const double x : values(got.out)) EXPECT_EQ(x, 0);
    for (const double x : values(got.lse)) EXPECT_EQ(x, -INFINITY);
  });
}

// ---- Pages ----

// One prefix in the pages of all sequences, which then go on in pages of their own.
TEST_P(Layouts, sequences_may_share_pages) {
  static constexpr std::int64_t kSharedPages = 2;
  Case c{
      .batch = 3, .queries = 9, .keys = 150, .heads = 4, .kv_heads = 2, .dim = 24, .value_dim = 40};
  c.kv_lengths = {150, 97, 33};
  for (const std::int64_t page_size : {1, 16, 32, 96}) {
    c.page_size = page_size;
    for_case(c, [](const Backend& on, const Case& paged) {
      Inputs in(paged);
      for (std::int64_t b = 1; b < paged.batch; ++b)
        for (std::int64_t n = 0; n < std::min(kSharedPages, paged.pages_of_a_sequence()); ++n)
          in.table.set({b, n, 0, 0}, in.table.at(0, n));
      EXPECT_TRUE(is_right(run(on, in), in, on));
    });
  }
}

// Of many sequences the shortest come last: all are computed, on any number of threads.
TEST_P(Layouts, one_long_sequence_among_many_short_ones) {
  Case c{.batch = 41,
         .queries = 300,
         .keys = 300,
         .heads = 2,
         .kv_heads = 1,
         .dim = 32,
         .value_dim = 32};
  c.cu_q = {0};
  for (std::int64_t b = 0; b < c.batch; ++b)
    c.cu_q.push_back(c.cu_q.back() + (b == 17 ? 300 : b % 7));
  c.cu_k = c.cu_q;
  c.right = 0;
  c.align = TESSERA_ALIGN_TOP_LEFT;
  for_case(c, [](const Backend& on, const Case& packed) {
    const Inputs in(packed);
    EXPECT_TRUE(is_right(run(on, in), in, on));
    EXPECT_TRUE(same_bits(run(on, in), run(backend(on.name, 1), in)));
  });
}

}  // namespace
}  // namespace tessera::test
