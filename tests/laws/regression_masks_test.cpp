// Public reports about masks, softmax and numbers, each under its own name. PT is pytorch, FA
// flash-attention, FI flashinfer, ORT onnxruntime, TE TransformerEngine, HF transformers.
#include <cmath>
#include <limits>

#include "support/law.hpp"

namespace tessera::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = -double(std::numeric_limits<float>::max());
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class MaskRegression : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, MaskRegression, testing::ValuesIn(names_with_emulator()),
                         parameter_name);

// The mean of v over the keys [first, end) of one batch and key head.
double mean_of_v(const Inputs& in, const Index4& bhd, std::int64_t first, std::int64_t end) {
  double sum = 0;
  for (std::int64_t j = first; j < end; ++j) sum += in.v.at(bhd[0], j, bhd[1], bhd[2]);
  return sum / double(end - first);
}

TEST_P(MaskRegression, bug_PT_110213_finfo_min_is_visible) {
  Case c{.queries = 3, .keys = 3, .dim = 4, .value_dim = 4};
  for_case(c, [](const Backend& on, const Case& of) {
    Inputs in(of);
    in.bias = Array(DType::kFloat32, {1, 1, 3, 3});
    in.bias.fill([](const Index4& i) { return i[2] == 0 ? kLowest : 1; });
    const Outputs got = run(on, in);
    EXPECT_TRUE(is_right(got, in, on));
    // Beside 3.4e38 the scores are lost even in double: the three are equal.
    EXPECT_NEAR(got.out.at(0, 0, 0, 1), mean_of_v(in, {0, 0, 1, 0}, 0, 3), 4e-3);
  });
}

TEST_P(MaskRegression, bug_PT_109517_leading_tiles_of_finfo_min_weigh_nothing) {
  Case c{.batch = 2,
         .queries = 41,
         .keys = 441,
         .heads = 3,
         .kv_heads = 3,
         .dim = 64,
         .value_dim = 64};
  for_case(c, [](const Backend& on, const Case& of) {
    Inputs in(of), cut(of);
    in.bias = Array(DType::kFloat32, {1, 1, 1, of.keys});
    in.bias.fill([](const Index4& i) { return i[3] < 128 ? kLowest : 0; });
    cut.kv_starts = Array(DType::kInt32, {of.batch, 1, 1, 1});
    cut.kv_starts.fill([](const Index4&) { return 128.; });
    const Outputs got = run(on, in);
    EXPECT_TRUE(is_right(got, in, on));
    EXPECT_TRUE(agree(got, define(cut), in, on));
  });
}

TEST_P(MaskRegression, bug_FI_4452_lse_of_empty_rows_is_minus_infinity) {
  Case c{.queries = 67, .keys = 20, .heads = 2, .kv_heads = 1, .dim = 16, .value_dim = 16};
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  for_case(c, [](const Backend& on, const Case& of) {
    const Outputs got = run(on, Inputs(of));
    for (std::int64_t i = 0; i < of.queries; ++i) {
      EXPECT_EQ(got.lse.at(0, 1, i) == -kInfinity, i < 47) << i;
      if (i < 47) {
        EXPECT_EQ(got.out.at(0, i, 1, 3), 0);
      }
    }
  });
}

TEST_P(MaskRegression, bug_ik_llama_2344_empty_rows_are_0_wherever_they_stand) {
  for (const std::int64_t first : {0, 30, 64}) {
    Case c{.queries = 70, .keys = 40, .heads = 1, .kv_heads = 1, .dim = 512, .value_dim = 512};
    c.sink = true;
    for_case(c, [first](const Backend& on, const Case& of) {
      Inputs in(of);
      in.mask = Array(DType::kBool, {1, 1, of.queries, of.keys});
      in.mask.fill([first](const Index4& i) { return i[2] < first || i[2] >= first + 6; });
      const Outputs got = run(on, in);
      for (std::int64_t i = first; i < first + 6; ++i) EXPECT_EQ(got.out.at(0, i, 0, 100), 0) << i;
      EXPECT_TRUE(is_right(got, in, on));
    });
  }
}

TEST_P(MaskRegression, bug_burn_4697_mask_and_band_together_may_hide_every_key) {
  Case c{.queries = 40, .keys = 40, .dim = 8, .value_dim = 8};
  c.right = 0;
  for_case(c, [](const Backend& on, const Case& of) {
    Inputs in(of);
    in.mask = Array(DType::kBool, {1, 1, of.queries, of.keys});
    in.mask.fill([](const Index4& i) { return i[3] >= 10 ? 1. : 0.; });
    const Outputs got = run(on, in);
    for (std::int64_t i = 0; i < of.queries; ++i)
      EXPECT_EQ(got.lse.at(0, 0, i) == -kInfinity, i < 10) << i;
    EXPECT_TRUE(is_right(got, in, on));
  });
}

TEST_P(MaskRegression, bug_FI_941_slots_past_the_length_are_never_read) {
  Case c{.keys = 16, .heads = 4, .kv_heads = 1, .dim = 32, .value_dim = 32};
  c.kv_lengths = {13};
  for_case(c, [](const Backend& on, const Case& of) {
    const Inputs in(of), poisoned = in.with_unseen_memory_poisoned();
    EXPECT_TRUE(std::isnan(poisoned.v.at(0, 13)));
    EXPECT_TRUE(same_bits(run(on, poisoned), run(on, in)));
  });
}

// The same with the keys in pages of 4, of which the last has three slots to spare.
TEST_P(MaskRegression, bug_FI_941_unused_slots_of_the_last_page_are_never_read) {
  Case c{.keys = 16, .heads = 4, .kv_heads = 1, .dim = 32, .value_dim = 32};
  c.kv_lengths = {13};
  c.page_size = 4;
  for_case(c, [](const Backend& on, const Case& of) {
    const Inputs in(of), poisoned = in.with_unseen_memory_poisoned();
    const Place last = in.key_at(0, 12);
    EXPECT_FALSE(std::isnan(poisoned.v.at(last.batch, last.row)));
    EXPECT_TRUE(std::isnan(poisoned.v.at(last.batch, last.row + 1)));
    EXPECT_TRUE(same_bits(run(on, poisoned), run(on, in)));
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

TEST_P(MaskRegression, bug_PT_141128_nan_in_q_gives_nan) {
  Case c{
      .batch = 2, .queries = 16, .keys = 16, .heads = 4, .kv_heads = 4, .dim = 8, .value_dim = 8};
  for_case(c, [](const Backend& on, const Case& of) {
    Inputs in(of);
    in.q.fill([](const Index4&) { return kNaN; });
    const Outputs got = run(on, in);
    for (const double x : values(got.out)) ASSERT_TRUE(std::isnan(x));
    for (const double x : values(got.lse)) ASSERT_TRUE(std::isnan(x));
  });
}

TEST_P(MaskRegression, bug_FI_3716_padding_of_a_tile_is_not_in_the_denominator) {
  Case c{.keys = 16, .heads = 4, .kv_heads = 2, .dim = 64, .value_dim = 64};
  for_case(c, [](const Backend& on, const Case& of) {
    Inputs in(of);
    in.q.fill([](const Index4&) { return 0.; });
    const Outputs got = run(on, in);
    EXPECT_NEAR(got.lse.at(0, 3, 0), std::log(16.), 3e-6);
    for (std::int64_t d = 0; d < of.value_dim; ++d)
      EXPECT_NEAR(got.out.at(0, 0, 3, d), mean_of_v(in, {0, 1, d, 0}, 0, 16), 3e-3);
  });
}

// Two keys with scores x and 0 and values 1 and 0: the output is the weight of the first.
double weight_of_first(const Backend& on, Case c, double x, double bias) {
  c.keys = 2;
  c.scale = 1;
  c.dtype = DType::kFloat32;
  Inputs in(c);
  in.q.fill([x](const Index4&) { return x; });
  in.k.fill([](const Index4& i) { return i[1] == 0 ? 1. : 0.; });
  in.v.fill([](const Index4& i) { return i[1] == 0 ? 1. : 0.; });
  in.bias = Array(DType::kFloat32, {1, 1, 1, 2});
  in.bias.fill([bias](const Index4& i) { return i[3] == 0 ? bias : 0; });
  return run(on, in).out.at(0, 0, 0);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_P(MaskRegression, bug_FA_2396_softcap_is_c_tanh_s_over_c) {
  Case c;
  c.softcap = 15;
  for (const double s : {-40., -3., 0.5, 2., 30.})
    EXPECT_NEAR(weight_of_first(on(), c, s, 0), sigmoid(15 * std::tanh(s / 15)), 2e-6) << s;
}

TEST_P(MaskRegression, bug_TE_3391_the_cap_comes_before_the_bias) {
  Case c;
  c.softcap = 1.5;
  for (const double bias : {-3., 2., 8.})
    EXPECT_NEAR(weight_of_first(on(), c, 4, bias), sigmoid(1.5 * std::tanh(4 / 1.5) + bias), 2e-6);
}

TEST_P(MaskRegression, bug_sglang_33915_softcap_is_not_dropped) {
  Case c{.queries = 20, .keys = 50, .dim = 32, .value_dim = 32};
  c.scale = 1;
  for_case(c, [](const Backend& on, Case of) {
    const Outputs plain = run(on, Inputs(of));
    of.softcap = 2;
    const Inputs capped(of);
    const Outputs got = run(on, capped);
    EXPECT_TRUE(is_right(got, capped, on));
    EXPECT_GT(deviation(got.out, plain.out).relative, 0.1);
  });
}

TEST_P(MaskRegression, bug_FI_4014_a_second_call_uses_its_own_scale) {
  Case c{.queries = 40, .keys = 50, .dim = 32, .value_dim = 32};
  for_case(c, [](const Backend& on, Case of) {
    for (const float scale : {0.125f, 1.f, 0.5f, 0.125f}) {
      of.scale = scale;
      const Inputs in(of);
      EXPECT_TRUE(is_right(run(on, in), in, on)) << scale;
    }
  });
}

// Sums of 16-bit values pass 65504 long before they are divided.
TEST_P(MaskRegression, bug_ggml_17746_values_are_summed_in_float32) {
  Case c{.queries = 33, .keys = 500, .heads = 2, .kv_heads = 1, .dim = 16, .value_dim = 20};
  for_case(c, [](const Backend& on, const Case& of) {
    Inputs in(of);
    in.v.fill([](const Index4& i) { return i[3] % 2 ? 60000. : -60000.; });
    const Outputs got = run(on, in);
    EXPECT_TRUE(is_right(got, in, on));
    EXPECT_NEAR(got.out.at(0, 0, 0, 1), 60000, 300);
  });
}

}  // namespace
}  // namespace tessera::test
