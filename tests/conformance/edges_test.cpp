// The table of edges, decided once: each row by name, on every backend.
#include <cmath>
#include <limits>

#include "support/law.hpp"

namespace tessera::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Edges : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Edges, testing::ValuesIn(names_with_hopper()), parameter_name);

// More rows than one task has, more keys than one block, and no size a whole number of vectors.
const Case kCase{
    .batch = 2, .queries = 70, .keys = 101, .heads = 4, .kv_heads = 2, .dim = 24, .value_dim = 17};

// Every row of the definition's shape, with these answers.
void expect_rows(const Outputs& got, double out, double lse) {
  for (const double x : values(got.out)) ASSERT_EQ(x, out);
  for (const double x : values(got.lse)) ASSERT_EQ(x, lse);
}

TEST_P(Edges, a_row_with_no_visible_key_is_0_and_minus_infinity) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.kv_lengths = {0, 0};
    expect_rows(run(on, Inputs(c)), 0, -kInfinity);
    c.kv_lengths.clear();
    c.right = 0;  // and the diagonal lies before the first key
    c.align = TESSERA_ALIGN_OFFSET;
    c.offset = -c.queries;
    expect_rows(run(on, Inputs(c)), 0, -kInfinity);
    Inputs masked(kCase);
    masked = masked.in(c.dtype);
    masked.mask = Array(DType::kBool, {1, 1, 1, 1});
    masked.mask.set({}, 0);
    expect_rows(run(on, masked), 0, -kInfinity);
    masked.mask = {};
    masked.bias = Array(DType::kFloat16, {1, 1, 1, 1});
    masked.bias.set({}, -kInfinity);
    expect_rows(run(on, masked), 0, -kInfinity);
  });
}

TEST_P(Edges, with_a_sink_a_row_with_no_visible_key_is_0_and_the_sink) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.sink = true;
    c.kv_lengths = {0, 0};
    const Inputs in(c);
    const Outputs got = run(on, in);
    for (const double x : values(got.out)) ASSERT_EQ(x, 0);
    got.lse.for_each(
        [&](const Index4& i) { EXPECT_EQ(got.lse.at(i[0], i[1], i[2]), in.sink.at(i[1])); });
  });
}

TEST_P(Edges, a_sink_of_minus_infinity_is_no_sink) {
  for_case(kCase, [](const Backend& on, const Case& c) {
    const Inputs without(c);
    Inputs with = without;
    with.sink = Array(DType::kFloat32, {c.heads, 1, 1, 1});
    with.sink.fill([](const Index4&) { return -kInfinity; });
    EXPECT_TRUE(same_bits(run(on, with), run(on, without)));
  });
}

TEST_P(Edges, an_empty_row_ignores_nan_in_its_query) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.mask = MaskKind::kSparse;
    Inputs in(c);
    for (std::int64_t j = 0; j < c.keys; ++j) in.mask.set({0, 1, 3, j}, 0);
    in.q.set({0, 3, 1, 5}, kNaN);
    const Outputs got = run(on, in);
    EXPECT_EQ(got.out.at(0, 3, 1, 0), 0);
    EXPECT_EQ(got.lse.at(0, 1, 3), -kInfinity);
    EXPECT_TRUE(is_right(got, in, on));
  });
}

// Which memory a row of the table poisons.
struct Hidden {
  const char* name;
  void (*hide)(Case&);
};
constexpr Hidden kHidden[] = {
    {"band", [](Case& c) { c.left = 20, c.right = 0, c.align = TESSERA_ALIGN_TOP_LEFT; }},
    {"length", [](Case& c) { c.kv_lengths = {50, 100}; }},
    {"start", [](Case& c) { c.kv_starts = {1, 97}; }},
    {"mask",
     [](Case& c) { c.mask = MaskKind::kRandom, c.mask_spans = {{true, false, false, true}}; }},
    {"bias",
     [](Case& c) { c.bias = BiasKind::kHoles, c.bias_spans = {{false, true, false, true}}; }},
    {"padding", [](Case& c) { c.k_layout = c.v_layout = c.q_layout = Layout::kPadded; }},
};

TEST_P(Edges, a_key_that_no_row_sees_may_hold_nan_or_infinity) {
  for (const Hidden& row : kHidden)
    for_case(kCase, [&row](const Backend& on, Case c) {
      row.hide(c);
      const Inputs plain(c);
      Inputs poisoned = plain.with_unseen_memory_poisoned();
      EXPECT_TRUE(same_bits(run(on, poisoned), run(on, plain))) << row.name;
      for (Array* a : {&poisoned.k, &poisoned.v})
        a->for_each([&](const Index4& i) {
          if (std::isnan(a->at(i[0], i[1], i[2], i[3])))
            a->set(i, i[3] % 2 ? kInfinity : -kInfinity);
        });
      EXPECT_TRUE(same_bits(run(on, poisoned), run(on, plain))) << row.name << ", infinity";
    });
}

TEST_P(Edges, nan_in_v_at_a_key_that_some_rows_see_does_not_affect_the_others) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.right = 0;
    c.align = TESSERA_ALIGN_TOP_LEFT;
    const Inputs plain(c);
    Inputs poisoned = plain;
    for (const std::int64_t j : {33, 64}) poisoned.v.set({1, j, 0, 3}, kNaN);
    const Outputs got = run(on, poisoned);
    EXPECT_TRUE(is_right(got, poisoned, on));
    for (std::int64_t i = 0; i < c.queries; ++i) {
      EXPECT_EQ(std::isnan(got.out.at(1, i, 0, 3)), i >= 33) << i;
      EXPECT_FALSE(std::isnan(got.out.at(1, i, 0, 2))) << i;
    }
  });
}

TEST_P(Edges, nan_or_minus_infinity_in_a_hidden_bias_entry_has_no_effect) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.mask = MaskKind::kRandom;
    c.bias = BiasKind::kNormal;
    const Inputs plain(c);
    Inputs poisoned = plain;
    poisoned.bias.for_each([&](const Index4& i) {
      if (plain.mask.at(i[0], i[1], i[2], i[3]) == 0)
        poisoned.bias.set(i, i[3] % 3 == 0 ? kNaN : i[3] % 3 == 1 ? -kInfinity : kInfinity);
    });
    EXPECT_TRUE(same_bits(run(on, poisoned), run(on, plain)));
  });
}

TEST_P(Edges, a_visible_nan_is_never_mistaken_for_masked) {
  for_case(kCase, [](const Backend& on, const Case& c) {
    Inputs in(c);
    in.q.set({0, 7, 0, 1}, kNaN);
    in.k.set({1, 100, 1, 0}, kNaN);
    const Outputs got = run(on, in);
    EXPECT_TRUE(is_right(got, in, on));
    EXPECT_TRUE(std::isnan(got.out.at(0, 7, 0)));
    EXPECT_TRUE(std::isnan(got.lse.at(0, 0, 7)));
    EXPECT_TRUE(std::isnan(got.out.at(1, 0, 2)));
    EXPECT_FALSE(std::isnan(got.out.at(1, 0, 0)));
  });
}

TEST_P(Edges, any_finite_bias_is_visible_however_low) {
  for_case(kCase, [](const Backend& on, Case c) {
    for (const DType dtype : kFloats) {
      c.bias = BiasKind::kLowest;
      c.bias_dtype = dtype;
      Inputs in(c);
      for (std::int64_t j = 0; j < c.keys; ++j) in.bias.set({1, 2, 9, j}, in.bias.at(0, 0, 0, 0));
      EXPECT_TRUE(is_right(run(on, in), in, on)) << core::name_of(dtype);
    }
  });
}

TEST_P(Edges, a_row_of_lowest_finite_biases_is_the_mean_of_v) {
  for_case(kCase, [](const Backend& on, const Case& c) {
    Inputs in(c);
    in.bias = Array(DType::kFloat32, {1, 1, 1, 1});
    in.bias.set({}, -double(std::numeric_limits<float>::max()));
    in.q.fill([](const Index4&) { return 0.; });
    const Outputs got = run(on, in);
    EXPECT_TRUE(is_right(got, in, on));
    EXPECT_EQ(got.lse.at(0, 0, 0), -double(std::numeric_limits<float>::max()));
  });
}

TEST_P(Edges, any_size_of_0_is_valid) {
  for (std::int64_t Case::* size : {&Case::batch, &Case::queries, &Case::keys, &Case::heads}) {
    Case c = kCase;
    c.*size = 0;
    if (c.heads == 0) c.kv_heads = 0;
    for_case(c, [](const Backend& on, const Case& empty) {
      expect_rows(run(on, Inputs(empty)), 0, -kInfinity);
    });
  }
}

TEST_P(Edges, null_data_is_an_empty_tensor_where_a_size_is_0) {
  Case c = kCase;
  c.keys = 0;
  for_case(c, [](const Backend& on, const Case& empty) {
    const Inputs in(empty);
    Outputs got(empty);
    tessera_attention_desc d = describe(in, got);
    d.k.data = d.v.data = nullptr;
    run(on, d, got);
    ASSERT_EQ(got.status, TESSERA_OK) << got.message;
    expect_rows(got, 0, -kInfinity);
  });
}

TEST_P(Edges, huge_scores_are_finite_where_the_definition_is) {
  for (const float scale : {1.f, 0.25f})
    for (const double size : {1e18, 3e18, 1e15}) {
      Case c = kCase;
      c.scale = scale;
      c.dim = 8;
      for_case(c, [size](const Backend& on, const Case& huge) {
        if (huge.dtype == DType::kFloat16) return;  // it cannot hold such numbers
        Inputs in(huge);
        in.q.fill([&](const Index4& i) { return size * in.q.at(i[0], i[1], i[2], i[3]); });
        in.k.fill([&](const Index4& i) { return size * in.k.at(i[0], i[1], i[2], i[3]); });
        EXPECT_TRUE(is_right(run(on, in), in, on)) << "q and k of " << size;
      });
    }
}

TEST_P(Edges, scores_past_float32_are_finite_where_the_definition_is) {
  Case c = kCase;
  c.scale = 0.25f;
  c.dim = 3;
  for_case(c, [](const Backend& on, const Case& huge) {
    if (huge.dtype == DType::kFloat16) return;
    Inputs in(huge);
    // Products of 1e38 each: their sum passes float32 before the scale brings it back.
    in.q.fill([](const Index4& i) { return i[1] % 2 ? 1e19 : -1e19; });
    in.k.fill([](const Index4& i) { return i[1] % 3 ? 1.5e19 : -1e19; });
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

// -3e38 is a float32, but not in units of log2: that must not hide the key.
TEST_P(Edges, rows_of_scores_near_the_lowest_float32_are_visible) {
  Case c{.queries = 3, .keys = 5, .dim = 1, .value_dim = 4};
  c.scale = 1;
  for_case(c, [](const Backend& on, const Case& huge) {
    if (huge.dtype == DType::kFloat16) return;
    Inputs in(huge);
    in.q.fill([](const Index4& i) { return i[1] == 1 ? -1e19 : 1e19; });
    in.k.fill([](const Index4&) { return -3e19; });
    EXPECT_TRUE(is_right(run(on, in), in, on));
  });
}

TEST_P(Edges, values_up_to_the_largest_number_stay_finite) {
  for_case(kCase, [](const Backend& on, const Case& c) {
    Inputs in(c);
    const double largest = c.dtype == DType::kFloat16 ? 65504 : 3e38;
    in.v.fill([&](const Index4& i) { return i[3] % 2 ? largest : -largest; });
    const Outputs got = run(on, in), definition = define(in);
    const double bound = core::bound(c.dtype, c.keys, score_size(in, definition));
    const std::vector<double> x = values(got.out), want = values(definition.out);
    for (std::size_t n = 0; n < x.size(); ++n)
      ASSERT_LE(std::abs(x[n] - want[n]), bound * std::abs(want[n])) << n << ": " << x[n];
  });
}

TEST_P(Edges, scale_0_weighs_all_visible_keys_alike) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.scale = 0;
    c.right = 3;
    c.align = TESSERA_ALIGN_TOP_LEFT;
    const Inputs in(c);
    const Outputs got = run(on, in);
    EXPECT_TRUE(is_right(got, in, on));
    for (std::int64_t i = 0; i < c.queries; ++i)
      EXPECT_NEAR(got.lse.at(0, 0, i), std::log(double(std::min(i + 4, c.keys))), 4e-6);
  });
}

TEST_P(Edges, bytes_of_a_mask_other_than_0_are_true) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.mask = MaskKind::kRandom;
    c.seed = 3;  // odd: uint8
    const Inputs plain(c);
    ASSERT_EQ(plain.mask.dtype(), DType::kUint8);
    Inputs other = plain;
    other.mask.for_each([&](const Index4& i) {
      std::byte& x = *other.mask.where(i);
      if (x != std::byte{0}) x = std::byte(1 << (i[3] % 8));
    });
    EXPECT_TRUE(same_bits(run(on, other), run(on, plain)));
  });
}

TEST_P(Edges, extreme_windows_and_offsets_do_not_overflow) {
  for (const std::int64_t offset : {INT64_MIN, INT64_MIN / 2, INT64_MAX / 2, INT64_MAX})
    for (const std::int64_t side : {std::int64_t{0}, std::int64_t{5}, INT64_MAX - 1, INT64_MAX}) {
      Case c = kCase;
      c.batch = 1;
      c.queries = 35;
      c.heads = c.kv_heads = 1;
      c.align = TESSERA_ALIGN_OFFSET;
      c.offset = offset;
      c.left = side;
      c.right = side / 2;
      for_case(c, [](const Backend& on, const Case& extreme) {
        const Inputs in(extreme);
        EXPECT_TRUE(is_right(run(on, in), in, on));
      });
    }
}

}  // namespace
}  // namespace tessera::test
