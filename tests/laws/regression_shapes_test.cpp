// Public reports about alignment, windows, sizes, strides and repetition, each under its own name.
#include <cmath>
#include <limits>

#include "support/law.hpp"
#include "support/sparse.hpp"

namespace tessera::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ShapeRegression : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, ShapeRegression, testing::ValuesIn(names_on_the_host()),
                         parameter_name);

// With scale 0 every visible key weighs the same: exp(lse) is their number.
std::int64_t visible_keys(const Backend& on, Case c, std::int64_t i, std::int64_t b = 0) {
  c.scale = 0;
  const double lse = run(on, Inputs(c)).lse.at(b, 0, i);
  return std::int64_t(std::lround(std::exp(lse)));
}

TEST_P(ShapeRegression, bug_ORT_29020_one_causal_query_sees_what_the_alignment_says) {
  Case c{.keys = 9, .dim = 8, .value_dim = 8};
  c.right = 0;
  c.align = TESSERA_ALIGN_TOP_LEFT;
  EXPECT_EQ(visible_keys(on(), c, 0), 1);
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  EXPECT_EQ(visible_keys(on(), c, 0), 9);
  c.align = TESSERA_ALIGN_OFFSET;
  c.offset = 4;
  EXPECT_EQ(visible_keys(on(), c, 0), 5);
  c.align = TESSERA_ALIGN_UNSET;
  c.offset = 0;
  const Inputs in(c);
  Outputs got(c);
  run(on(), describe(in, got), got);
  EXPECT_EQ(got.status, TESSERA_INVALID_ARGUMENT) << "no silent default";
}

TEST_P(ShapeRegression, bug_ORT_28904_rows_before_the_first_key_of_a_short_cache_are_empty) {
  Case c{.batch = 3, .queries = 6, .keys = 12, .dim = 8, .value_dim = 8};
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  c.kv_lengths = {12, 6, 2};
  for_case(c, [](const Backend& on, const Case& of) {
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t i = 0; i < 6; ++i) {
        const std::int64_t seen = i + of.kv_lengths[std::size_t(b)] - 6 + 1;
        EXPECT_EQ(visible_keys(on, of, i, b), std::max<std::int64_t>(0, seen)) << b << ' ' << i;
      }
    const Outputs got = run(on, Inputs(of));
    EXPECT_EQ(got.out.at(2, 3, 0), 0);
    EXPECT_NE(got.out.at(2, 4, 0), 0);
  });
}

TEST_P(ShapeRegression, bug_mlx_2835_both_alignments_are_there_and_differ) {
  Case c{.queries = 4, .keys = 7, .dim = 8, .value_dim = 8};
  c.right = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    c.align = TESSERA_ALIGN_TOP_LEFT;
    EXPECT_EQ(visible_keys(on(), c, i), i + 1);
    c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    EXPECT_EQ(visible_keys(on(), c, i), i + 4);
  }
}

TEST_P(ShapeRegression, bug_HF_39408_left_w_minus_1_shows_w_tokens) {
  for (const std::int64_t w : {1, 2, 33, 96}) {
    Case c{.queries = 150, .keys = 150, .dim = 8, .value_dim = 8};
    c.left = w - 1;
    c.right = 0;
    EXPECT_EQ(visible_keys(on(), c, 149), w);
    EXPECT_EQ(visible_keys(on(), c, 0), 1);
  }
}

TEST_P(ShapeRegression, bug_TE_1197_windows_include_both_edges) {
  for (const std::int64_t left : {10, 95, 96, 97}) {
    Case c{.queries = 300, .keys = 300, .dim = 8, .value_dim = 8};
    c.left = left;
    c.right = 5;
    for (const std::int64_t i : {150, 191, 192, 200, 294})
      EXPECT_EQ(visible_keys(on(), c, i), left + 6) << left << ' ' << i;
    EXPECT_EQ(visible_keys(on(), c, 299), left + 1);
  }
}

TEST_P(ShapeRegression, bug_libflash_attn_11_a_window_wider_than_the_context_is_still_causal) {
  Case c{.queries = 50, .keys = 50, .dim = 8, .value_dim = 8};
  c.left = 4096;
  c.right = 0;
  for (const std::int64_t i : {0, 1, 31, 32, 49}) EXPECT_EQ(visible_keys(on(), c, i), i + 1);
}

TEST_P(ShapeRegression, bug_TE_629_the_default_band_hides_nothing_in_cross_attention) {
  for (const std::int64_t queries : {1, 7, 90}) {
    Case c{.queries = queries, .keys = 40, .dim = 8, .value_dim = 8};
    EXPECT_EQ(visible_keys(on(), c, 0), 40);
    EXPECT_EQ(visible_keys(on(), c, queries - 1), 40);
  }
}

TEST_P(ShapeRegression, bug_PT_187506_the_innermost_stride_is_honoured) {
  Case c{
      .batch = 2, .queries = 33, .keys = 40, .heads = 2, .kv_heads = 2, .dim = 16, .value_dim = 16};
  for_case(c, [](const Backend& on, const Case& of) {
    const Inputs dense(of);
    Inputs turned = dense;
    turned.q = dense.q.converted(of.dtype, Layout::kTransposed);
    ASSERT_EQ(turned.q.tensor().stride[3], of.queries);
    EXPECT_TRUE(same_bits(run(on, turned), run(on, dense)));
  });
}

// Keys stored as [keys, batch, dim] with so many batches that offsets pass 2^31.
TEST_P(ShapeRegression, bug_PT_190857_offsets_of_keys_are_64_bit) {
  Case c{.batch = 2, .queries = 3, .keys = 300, .dim = 16, .value_dim = 16};
  for_case(c, [](const Backend& on, const Case& of) {
    if (of.dtype == DType::kFloat16) return;  // as bfloat16
    const Inputs in(of);
    const Index4 stride{16, std::int64_t{1} << 23, 16, 1};
    SparseTensor k(of.dtype, in.k.shape(), stride), v(of.dtype, in.v.shape(), stride);
    if (!k.present() || !v.present()) GTEST_SKIP() << "the system lends no such range";
    k.copy_from(in.k);
    v.copy_from(in.v);
    Outputs got(of);
    tessera_attention_desc d = describe(in, got);
    d.k = k.abi();
    d.v = v.abi();
    run(on, d, got);
    ASSERT_EQ(got.status, TESSERA_OK) << got.message;
    EXPECT_TRUE(same_bits(got, run(on, in)));
  });
}

// Keys are rows of a wide matrix: row 225,304 of 9,728 elements lies past 2^31. Only the last rows
// are read, the rest is no memory at all.
TEST_P(ShapeRegression, bug_FA_2611_far_rows_of_a_wide_matrix) {
  constexpr std::int64_t kRows = 225'310, kWidth = 9728, kSeen = 6;
  Case c{.queries = 2, .keys = kSeen, .heads = 2, .kv_heads = 2, .dim = 96, .value_dim = 96};
  for_case(c, [](const Backend& on, const Case& of) {
    if (of.dtype == DType::kFloat32) return;  // twice the address space for nothing new
    const Inputs in(of);
    SparseTensor wide(of.dtype, {1, kRows, 2, 96}, {0, kWidth, 96, 1});
    if (!wide.present()) GTEST_SKIP() << "the system lends no such range";
    tessera_tensor last = wide.abi();
    Inputs small = in;
    small.v = in.k;
    core::Tensor view{static_cast<std::uint16_t*>(last.data) + (kRows - kSeen) * kWidth,
                      {1, kSeen, 2, 96},
                      {0, kWidth, 96, 1},
                      of.dtype};
    in.k.for_each([&](const Index4& i) { view.store(i, in.k.at(i[0], i[1], i[2], i[3])); });
    Array starts(DType::kInt32, {1, 1, 1, 1});
    starts.set({}, double(kRows - kSeen));
    Outputs got(of);
    tessera_attention_desc d = describe(small, got);
    d.k = d.v = last;
    d.kv_starts = starts.abi();
    run(on, d, got);
    ASSERT_EQ(got.status, TESSERA_OK) << got.message;
    EXPECT_TRUE(is_right(got, small, on));
  });
}

TEST_P(ShapeRegression, bug_FA_2260_many_batches_of_one_row) {
  if (on().is_emulator()) GTEST_SKIP() << "132,800 blocks would take the emulator an hour";
  Case one{.dim = 128, .value_dim = 128, .dtype = DType::kFloat16};
  Inputs in(one);
  Case c = one;
  c.batch = 8300;
  c.heads = c.kv_heads = 16;
  in.of = c;
  for (Array* a : {&in.q, &in.k, &in.v}) {
    a->expand(0, c.batch);
    a->expand(2, c.heads);
  }
  Outputs got(c);
  run(on(2), describe(in, got), got);
  ASSERT_EQ(got.status, TESSERA_OK) << got.message;
  for (const std::int64_t b : {0, 1, 4150, 8299})
    for (std::int64_t d = 0; d < 128; ++d) ASSERT_EQ(got.out.at(b, 0, 15, d), in.v.at(0, 0, 0, d));
}

TEST_P(ShapeRegression, bug_mlx_3361_a_mask_over_more_than_32768_keys) {
  for (const std::int64_t keys : {32'769, 65'537}) {
    Case c{.queries = 2, .keys = keys, .dim = 4, .value_dim = 4};
    c.mask = MaskKind::kRandom;
    const Inputs in(c);
    EXPECT_TRUE(is_right(run(on(), in), in, on())) << keys;
  }
}

TEST_P(ShapeRegression, bug_FA_2503_no_queries_no_batches_no_keys) {
  for (const bool causal : {false, true})
    for (std::int64_t Case::* size : {&Case::batch, &Case::queries, &Case::keys}) {
      Case c{
          .batch = 2, .queries = 5, .keys = 7, .heads = 4, .kv_heads = 2, .dim = 8, .value_dim = 8};
      c.*size = 0;
      c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
      if (causal) c.right = 0;
      const Outputs got = run(on(), Inputs(c));
      for (const double x : values(got.out)) EXPECT_EQ(x, 0);
      for (const double x : values(got.lse)) EXPECT_EQ(x, -kInfinity);
    }
}

TEST_P(ShapeRegression, bug_FA_638_a_length_past_the_cache_is_refused) {
  Case c{.batch = 2, .keys = 10, .dim = 8, .value_dim = 8};
  c.kv_lengths = {10, 11};
  const Inputs in(c);
  Outputs got(c);
  run(on(), describe(in, got), got);
  EXPECT_EQ(got.status, TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(got.message.find("kv_lengths"), got.message.npos) << got.message;
  EXPECT_TRUE(same_bits(got.out, Outputs(c).out)) << "wrote before it refused";
}

TEST_P(ShapeRegression, bug_FA_2244_thirty_runs_give_the_same_bits) {
  Case c{.queries = 130, .keys = 200, .heads = 8, .kv_heads = 2, .dim = 64, .value_dim = 64};
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const Inputs in(c);
  const Outputs first = run(on(5), in);
  const int runs = on().is_reference() ? 3 : on().is_emulator() ? 5 : 30;  // of five schedules
  for (int n = 1; n < runs; ++n) ASSERT_TRUE(same_bits(run(on(5), in), first)) << n;
}

// Ten rows instead of nine: the first nine keep their bits.
TEST_P(ShapeRegression, bug_vLLM_51902_a_row_more_does_not_change_the_others) {
  Case c{.queries = 10,
         .keys = on().is_reference()  ? 802
                 : on().is_emulator() ? 1802
                                      : 19'802,
         .heads = 14,
         .kv_heads = 2,
         .dim = 64,
         .value_dim = 64};
  const Inputs ten(c);
  Inputs nine = ten;
  nine.of.queries = 9;
  nine.q = Array(c.dtype, {1, 9, c.heads, c.dim});
  nine.q.fill([&](const Index4& i) { return ten.q.at(i[0], i[1], i[2], i[3]); });
  const Outputs a = run(on(2), ten), b = run(on(2), nine);
  for (std::int64_t i = 0; i < 9; ++i)
    for (std::int64_t h = 0; h < c.heads; ++h) ASSERT_TRUE(same_row(a, b, {0, i, h, 0}));
}

}  // namespace
}  // namespace tessera::test
