// Public reports about the backward pass, each under its own name.
#include <cmath>
#include <limits>
#include <vector>

#include "support/gradients.hpp"
#include "support/law.hpp"
#include "support/sparse.hpp"

namespace tessera::test {
namespace {

constexpr double kLowest = -double(std::numeric_limits<float>::max());
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class GradientRegression : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, GradientRegression, testing::ValuesIn(backward_backend_names()),
                         parameter_name);

// Gradients in float32, of all that there is.
Case pulled(Case c) {
  c.pull = Pull{.wide = true};
  return c;
}

void expect_finite(const GradientArrays& g) {
  for (const Array& a : g.arrays)
    for (const double x : values(a)) ASSERT_TRUE(std::isfinite(x));
}

// The gradients of a call that was made, for a descriptor that was changed by hand.
tessera_status differentiate(const Backend& on, const tessera_attention_desc& forward,
                             const tessera_attention_backward_desc& desc) {
  tessera_attention_desc call = forward;
  call.backend = number_of(on);
  tessera_attention_backward_desc d = desc;
  d.forward = &call;
  tessera_error error = tessera_error_default();
  const tessera_status status = tessera_attention_backward(on.context, &d, &error);
  EXPECT_EQ(status, TESSERA_OK) << error.message;
  return status;
}

// ---- Masks and numbers ----

TEST_P(GradientRegression, bug_PT_110213_finfo_min_has_a_finite_gradient) {
  Case c = pulled({.queries = 3, .keys = 3, .dim = 4, .value_dim = 4});
  c.bias = BiasKind::kNormal;
  for_case(c, [](const Backend& on, const Case& of) {
    BackwardInputs in(of);
    in.call.bias.fill([](const Index4& i) { return i[2] == 0 ? kLowest : 1; });
    const GradientArrays g = differentiate(on, in);
    expect_finite(g);
    EXPECT_TRUE(is_right(g, in, on));
  });
}

TEST_P(GradientRegression, bug_PT_109517_leading_tiles_of_finfo_min_have_gradients_of_0) {
  Case c = pulled({.batch = 2, .queries = 41, .keys = 441, .heads = 3, .kv_heads = 3, .dim = 64});
  c.value_dim = 64;
  c.bias = BiasKind::kNormal;
  c.bias_spans.of = {false, false, false, true};
  for_case(c, [](const Backend& on, const Case& of) {
    BackwardInputs in(of);
    in.call.bias.fill([](const Index4& i) { return i[3] < 128 ? kLowest : 0; });
    const GradientArrays g = differentiate(on, in);
    EXPECT_TRUE(is_right(g, in, on));
    for (const std::int64_t j : {0, 64, 127}) {
      EXPECT_EQ(g[Gradient::kK].at(1, j, 2, 5), 0);
      EXPECT_EQ(g[Gradient::kV].at(1, j, 2, 5), 0);
    }
    EXPECT_NE(g[Gradient::kV].at(1, 128, 2, 5), 0);
  });
}

// One row that is NaN: its own dq, and what it sends to the keys that it sees; nothing else.
TEST_P(GradientRegression, bug_PT_141128_nan_in_q_gives_nan_gradients) {
  Case c = pulled({.batch = 2, .queries = 16, .keys = 16, .heads = 4, .kv_heads = 4, .dim = 8});
  c.value_dim = 8;
  c.right = 0;
  for_case(c, [](const Backend& on, const Case& of) {
    BackwardInputs in(of);
    for (std::int64_t d = 0; d < of.dim; ++d) in.call.q.set({1, 7, 2, d}, kNaN);
    const GradientArrays g = differentiate(on, in);
    const auto is_nan = [&](Gradient which, std::int64_t row, std::int64_t head) {
      return std::isnan(g[which].at(1, row, head, 3));
    };
    for (std::int64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(is_nan(Gradient::kQ, i, 2), i == 7) << i;
      EXPECT_EQ(is_nan(Gradient::kK, i, 2), i <= 7) << i;
      EXPECT_EQ(is_nan(Gradient::kV, i, 2), i <= 7) << i;
      EXPECT_FALSE(is_nan(Gradient::kQ, i, 1) || is_nan(Gradient::kK, i, 1)) << i;
    }
  });
}

TEST_P(GradientRegression, bug_FA_2396_the_gradient_knows_the_soft_cap) {
  Case c = pulled({.queries = 40, .keys = 50, .heads = 2, .kv_heads = 1, .dim = 32});
  c.value_dim = 16;
  c.scale = 1;
  c.softcap = 15;
  for_case(c, [](const Backend& on, const Case& of) {
    const BackwardInputs in(of);
    EXPECT_TRUE(is_right(differentiate(on, in), in, on));
  });
}

// ---- Dropout ----

// V is the identity: out_ij = P_ij Z_ij, and with ones from above dV_jc = sum_i P_ij Z_ij.
TEST_P(GradientRegression, bug_PT_196586_the_backward_pass_drops_the_same_pairs) {
  Case c = pulled({.queries = 30, .keys = 24, .heads = 2, .kv_heads = 2, .dim = 8});
  c.value_dim = c.keys;
  c.dropout = 0.4f;
  c.dropout_seed = 0x123456789abcdefu;
  c.dropout_offset = 3;
  BackwardInputs in(c);
  in.call.v.fill([](const Index4& i) { return i[1] == i[3] ? 1. : 0.; });
  in.from_above.d_out.fill([](const Index4&) { return 1.; });
  Outputs out(c);
  tessera_attention_desc call = describe(in.call, out);
  ASSERT_EQ(tessera_attention(on().context, &call, nullptr), TESSERA_OK);
  const GradientArrays g(in);
  const tessera_attention_backward_desc desc = describe(in, g, call);
  ASSERT_EQ(tessera_attention_backward(on().context, &desc, nullptr), TESSERA_OK);
  std::int64_t dropped = 0;
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t j = 0; j < c.keys; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < c.queries; ++i) {
        sum += out.out.at(0, i, h, j);
        EXPECT_EQ(out.out.at(0, i, h, j) == 0, !in.call.keeps({0, h, i, j}));
        dropped += out.out.at(0, i, h, j) == 0;
      }
      EXPECT_NEAR(g[Gradient::kV].at(0, j, h, 5), sum, 1e-5);
    }
  EXPECT_GT(dropped, 2 * 30 * 24 / 3);
}

// ---- Strides and sizes ----

TEST_P(GradientRegression, bug_FA_355_dO_may_be_expanded_or_strided) {
  Case c = pulled({.batch = 2, .queries = 32, .keys = 32, .heads = 4, .kv_heads = 1, .dim = 128});
  c.value_dim = 128;
  c.right = 0;
  for_case(c, [](const Backend& on, const Case& of) {
    BackwardInputs dense(of), other = dense;
    for (const Layout layout : kLayouts) {
      if (layout == Layout::kSharedByHeads) continue;
      other.from_above.d_out = dense.from_above.d_out.converted(of.dtype, layout);
      EXPECT_TRUE(same_bits(differentiate(on, other), differentiate(on, dense)));
    }
    dense.from_above.d_out.fill([](const Index4&) { return 0.5; });
    other.from_above.d_out = Array(of.dtype, {1, 1, 1, 1});  // as out.sum() / 2 sends it
    other.from_above.d_out.set({}, 0.5);
    const Index4& shape = dense.from_above.d_out.shape();
    for (int axis = 0; axis < 4; ++axis)
      other.from_above.d_out.expand(axis, shape[std::size_t(axis)]);
    const GradientArrays g = differentiate(on, other);
    EXPECT_TRUE(same_bits(g, differentiate(on, dense)));
    EXPECT_TRUE(is_right(g, dense, on));
  });
}

// Six queries at the end of 225,310 packed rows, whose dO is a slice of a matrix 9,728 wide.
TEST_P(GradientRegression, bug_FA_2611_far_rows_of_a_wide_dO) {
  constexpr std::int64_t kRows = 225'310, kWidth = 9728, kSeen = 20;  // not decoded
  Case c = pulled({.batch = 2, .queries = kRows - kSeen, .keys = 8, .dim = 16, .value_dim = 16});
  c.dtype = DType::kBfloat16;
  Case small = c;
  small.batch = 1;
  small.queries = kSeen;
  c.cu_q = {0, kRows - kSeen, kRows};
  c.used_q = {0, kSeen};
  c.cu_k = {0, 0, 8};
  const BackwardInputs near(small);
  const GradientArrays want = differentiate(on(), near);
  SparseTensor wide(c.dtype, {1, kRows, 1, 16}, {0, kWidth, 16, 1});
  SparseTensor q(c.dtype, {1, kRows, 1, 16}, {0, 16, 16, 1});
  if (!wide.present() || !q.present()) GTEST_SKIP() << "the system lends no such range";
  wide.copy_rows_from(near.from_above.d_out, kRows - kSeen);
  q.copy_rows_from(near.call.q, kRows - kSeen);
  BackwardInputs far(c);
  far.call.k = near.call.k;
  far.call.v = near.call.v;
  Outputs out(c);
  tessera_attention_desc call = describe(far.call, out);
  call.q = q.abi();
  run(on(), call, out);
  ASSERT_EQ(out.status, TESSERA_OK) << out.message;
  const GradientArrays got(far);
  tessera_attention_backward_desc desc = describe(far, got, call);
  desc.d_out = wide.abi();
  ASSERT_EQ(differentiate(on(), call, desc), TESSERA_OK);
  near.call.q.for_each([&](const Index4& i) {
    ASSERT_EQ(got[Gradient::kQ].at(0, kRows - kSeen + i[1], 0, i[3]),
              want[Gradient::kQ].at(0, i[1], 0, i[3]));
  });
  EXPECT_EQ(got[Gradient::kQ].at(0, kRows - kSeen - 1), 0);
  EXPECT_TRUE(same_bits(got[Gradient::kK], want[Gradient::kK]));
  EXPECT_TRUE(same_bits(got[Gradient::kV], want[Gradient::kV]));
}

// One key each: P = 1, so dV is dO and the scores have no gradient.
TEST_P(GradientRegression, bug_FA_2260_gradients_of_many_batches_of_one_row) {
  Case one = pulled({.dim = 128, .value_dim = 128});
  one.dtype = DType::kFloat16;
  one.pull->wide = false;
  BackwardInputs in(one);
  Case& c = in.call.of;
  c.batch = 8300;
  c.heads = c.kv_heads = 16;
  for (Array* a : {&in.call.q, &in.call.k, &in.call.v, &in.from_above.d_out}) {
    a->expand(0, c.batch);
    a->expand(2, c.heads);
  }
  const GradientArrays g = differentiate(on(2), in);
  for (const std::int64_t b : {0, 1, 4150, 8299})
    for (std::int64_t d = 0; d < 128; ++d) {
      ASSERT_EQ(g[Gradient::kV].at(b, 0, 15, d), in.from_above.d_out.at(0, 0, 0, d));
      ASSERT_NEAR(g[Gradient::kQ].at(b, 0, 15, d), 0, 1e-2);
      ASSERT_NEAR(g[Gradient::kK].at(b, 0, 15, d), 0, 1e-2);
    }
}

// K and V stored as [keys, batch, dim] with so many batches that offsets pass 2^31; so their
// gradients.
TEST_P(GradientRegression, bug_PT_190857_offsets_of_keys_and_their_gradients_are_64_bit) {
  Case c = pulled({.batch = 2, .queries = 3, .keys = 300, .dim = 16, .value_dim = 16});
  const Index4 stride{16, std::int64_t{1} << 23, 16, 1};
  const BackwardInputs in(c);
  const GradientArrays want = differentiate(on(), in);
  SparseTensor k(c.dtype, in.call.k.shape(), stride), v(c.dtype, in.call.v.shape(), stride);
  SparseTensor dk(c.dtype, in.call.k.shape(), stride), dv(c.dtype, in.call.v.shape(), stride);
  if (!k.present() || !v.present() || !dk.present() || !dv.present())
    GTEST_SKIP() << "the system lends no such range";
  k.copy_from(in.call.k);
  v.copy_from(in.call.v);
  Outputs out(c);
  tessera_attention_desc call = describe(in.call, out);
  call.k = k.abi();
  call.v = v.abi();
  run(on(), call, out);
  const GradientArrays got(in);
  tessera_attention_backward_desc desc = describe(in, got, call);
  desc.dk = dk.abi();
  desc.dv = dv.abi();
  ASSERT_EQ(differentiate(on(), call, desc), TESSERA_OK);
  EXPECT_TRUE(same_bits(got[Gradient::kQ], want[Gradient::kQ]));
  EXPECT_TRUE(same_bits(dk.copied(), want[Gradient::kK]));
  EXPECT_TRUE(same_bits(dv.copied(), want[Gradient::kV]));
}

TEST_P(GradientRegression, bug_FA_2503_gradients_without_queries_batches_or_keys) {
  for (std::int64_t Case::* size : {&Case::batch, &Case::queries, &Case::keys}) {
    Case c = pulled({.batch = 2, .queries = 5, .keys = 7, .heads = 4, .kv_heads = 2, .dim = 8});
    c.value_dim = 8;
    c.*size = 0;
    c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    c.right = 0;
    c.sink = true;
    const GradientArrays g = differentiate(on(), BackwardInputs(c));
    for (const Array& a : g.arrays)
      for (const double x : values(a)) EXPECT_EQ(x, 0);
  }
}

// The keys of a packed sequence without queries, and NaN in all that it has.
TEST_P(GradientRegression, bug_FA_2421_an_empty_query_sequence_has_key_gradients_of_0) {
  Case c = pulled({.batch = 3, .queries = 40, .keys = 30, .heads = 4, .kv_heads = 2, .dim = 16});
  c.value_dim = 16;
  c.cu_q = {0, 40, 40, 57};
  c.cu_k = {0, 20, 50, 60};
  for_case(c, [](const Backend& on, const Case& of) {
    BackwardInputs in(of);
    in.call = in.call.with_unseen_memory_poisoned();
    EXPECT_TRUE(std::isnan(in.call.k.at(0, 33)));
    const GradientArrays g = differentiate(on, in);
    for (std::int64_t j = 20; j < 50; ++j) {
      EXPECT_EQ(g[Gradient::kK].at(0, j, 1, 3), 0) << j;
      EXPECT_EQ(g[Gradient::kV].at(0, j, 1, 3), 0) << j;
    }
    expect_finite(g);
    EXPECT_TRUE(is_right(g, in, on));
  });
}

// ---- Repetition ----

TEST_P(GradientRegression, bug_FA_2244_thirty_runs_give_the_same_gradients) {
  Case c = pulled({.queries = 130, .keys = 200, .heads = 8, .kv_heads = 2, .dim = 64});
  c.value_dim = 64;
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  const BackwardInputs in(c);
  const GradientArrays first = differentiate(on(1), in);
  const int runs = on().is_reference() ? 3 : 30;
  for (int n = 1; n < runs; ++n)
    ASSERT_TRUE(same_bits(differentiate(on(n % 2 == 0 ? 2 : 5), in), first)) << n;
}

}  // namespace
}  // namespace tessera::test
