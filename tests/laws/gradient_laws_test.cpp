// Laws of the backward pass: what may change about it, and what must not.
#include <cmath>
#include <limits>
#include <vector>

#include "support/gradients.hpp"
#include "support/law.hpp"

namespace tessera::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class GradientLaws : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, GradientLaws, testing::ValuesIn(backward_backend_names()),
                         parameter_name);

Case any_case(Dice& dice) { return random_backward_case(dice, {.work = 200'000}); }

Case large_case(Dice& dice) {
  return random_backward_case(dice, {.work = 7'000'000, .least_work = 5'000'000});
}

// A case in which every gradient exists.
Case case_with_all(Dice& dice) {
  Case c = any_case(dice);
  c.sink = true;
  if (c.bias == BiasKind::kNone) c.bias = BiasKind::kNormal;
  return c;
}

bool& wanted(Pull& p, Gradient g) {
  bool* const all[] = {&p.dq, &p.dk, &p.dv, &p.d_bias, &p.d_sink};
  return *all[std::size_t(g)];
}

void fill_with_normal(Array& a, std::uint64_t seed, std::uint32_t stream) {
  a.fill([&](const Index4& i) {
    return core::normal(seed, stream, std::uint64_t(dense_index(a.shape(), i)));
  });
}

// Numbers up to `least` become 0, a positive one.
GradientArrays without_tiny_numbers(GradientArrays g, double least = 0) {
  for (Array& a : g.arrays)
    a.fill([&](const Index4& i) {
      const double x = a.at(i[0], i[1], i[2], i[3]);
      return std::abs(x) <= least ? 0 : x;
    });
  return g;
}

// Rows [batch row, row, head] of q that see no key, and of k that no row sees.
struct Lonely {
  std::vector<Index4> queries, keys;

  explicit Lonely(const Inputs& in) {
    const Case& c = in.of;
    Array seeing(DType::kBool, c.q_shape()), seen(DType::kBool, c.k_shape());
    for (Array* a : {&seeing, &seen}) a->fill([](const Index4&) { return 0.; });
    Array(DType::kBool, {c.batch, c.heads, c.queries, c.keys}).for_each([&](const Index4& pair) {
      const auto [b, h, i, j] = pair;
      if (!in.sees(b, h, i, j)) return;
      const Place query = in.query_at(b, i), key = in.key_at(b, j);
      seeing.set({query.batch, query.row, h, 0}, 1);
      seen.set({key.batch, key.row, h / c.group(), 0}, 1);
    });
    const auto others = [](const Array& a, std::vector<Index4>& to) {
      a.for_each([&](const Index4& i) {
        if (i[3] == 0 && a.at(i[0], i[1], i[2]) == 0) to.push_back(i);
      });
    };
    others(seeing, queries);
    others(seen, keys);
  }
};

void fill_row(Array& a, const Index4& at, double x) {
  for (std::int64_t d = 0; d < a.shape()[3]; ++d) a.set({at[0], at[1], at[2], d}, x);
}

void expect_zero_row(const Array& a, const Index4& at) {
  for (std::int64_t d = 0; d < a.shape()[3]; ++d)
    ASSERT_EQ(a.at(at[0], at[1], at[2], d), 0) << at[0] << ' ' << at[1] << ' ' << at[2];
}

// NaN into what rows without keys ask and are sent. With a sink their lse has a gradient.
BackwardInputs with_empty_rows_poisoned(BackwardInputs in) {
  const Case& c = in.of();
  const auto own_rows = [](Layout layout) { return layout != Layout::kSharedByHeads; };
  for (const Index4& at : Lonely(in.call).queries) {
    if (own_rows(c.q_layout)) fill_row(in.call.q, at, kNaN);
    if (own_rows(in.pull().d_out_layout)) fill_row(in.from_above.d_out, at, kNaN);
    if (in.from_above.d_lse.present() && !c.sink)
      in.from_above.d_lse.set({at[0], at[2], at[1], 0}, kNaN);
  }
  return in;
}

TEST_P(GradientLaws, any_number_of_threads_gives_the_same_bits) {
  for_cases(3, large_case, [](const Backend& on, const Case& c) {
    const BackwardInputs in(c);
    EXPECT_TRUE(same_bits(differentiate(backend(on.name, 1), in), differentiate(on, in)));
  });
}

TEST_P(GradientLaws, each_company_of_gradients_has_the_bits_of_all) {
  for_cases(6, case_with_all, [](const Backend& on, const Case& c) {
    BackwardInputs in(c);
    const GradientArrays all = differentiate(on, in);
    for (unsigned some = 1; some < 31; ++some) {
      if (some % 6 != c.seed % 6 && (some & (some - 1)) != 0) continue;  // each alone, some others
      Pull& p = *in.call.of.pull;
      for (const Gradient g : kEveryGradient) wanted(p, g) = (some >> unsigned(g) & 1) != 0;
      EXPECT_TRUE(same_bits(differentiate(on, in), all)) << "gradients " << some;
    }
  });
}

// In float32 the sum is rounded once more than the gradient alone.
TEST_P(GradientLaws, accumulating_adds_what_would_be_written) {
  for_cases(6, case_with_all, [](const Backend& on, Case c) {
    c.pull->wide = true;
    BackwardInputs in(c);
    const GradientArrays written = differentiate(on, in);
    GradientArrays there(in);
    std::uint32_t stream = 40;
    for (Array& a : there.arrays) fill_with_normal(a, c.seed, stream++);
    in.call.of.pull->accumulate = true;
    const GradientArrays sums = differentiate(on, in, there);
    for (const Gradient g : kEveryGradient)
      sums[g].for_each([&](const Index4& i) {
        const auto at = [&](const GradientArrays& x) { return x[g].at(i[0], i[1], i[2], i[3]); };
        const double sum = at(sums), want = at(written) + at(there);
        const double half_units =
            core::half_unit(DType::kFloat32, at(written)) + core::half_unit(DType::kFloat32, want);
        EXPECT_TRUE(core::same_kind(sum, want));
        EXPECT_TRUE(!std::isfinite(want) || std::abs(sum - want) <= half_units) << sum;
      });
  });
}

TEST_P(GradientLaws, accumulating_in_the_type_of_the_inputs_is_right) {
  for_cases(4, case_with_all, [](const Backend& on, const Case& c) {
    BackwardInputs in(c);
    GradientArrays there(in);
    for (Array& a : there.arrays) a.fill([](const Index4&) { return 0.; });
    const GradientArrays written = differentiate(on, in);
    in.call.of.pull->accumulate = true;
    EXPECT_TRUE(same_bits(without_tiny_numbers(differentiate(on, in, there)),
                          without_tiny_numbers(written)));
  });
}

// Within the bound: a NaN that a mask hides may have its tile computed with more care.
TEST_P(GradientLaws, memory_that_no_pair_needs_does_not_exist) {
  for_cases(12, any_case, [](const Backend& on, const Case& c) {
    const BackwardInputs plain(c);
    BackwardInputs poisoned = plain;
    poisoned.call = plain.call.with_unseen_memory_poisoned();
    EXPECT_TRUE(is_right(differentiate(on, poisoned), plain, on));
    EXPECT_TRUE(is_right(differentiate(on, with_empty_rows_poisoned(plain)), plain, on));
  });
}

TEST_P(GradientLaws, rows_and_keys_without_pairs_have_gradients_of_0) {
  for_cases(12, any_case, [](const Backend& on, const Case& c) {
    const BackwardInputs in(c);
    const GradientArrays g = differentiate(on, in);
    const Lonely lonely(in.call);
    for (const Index4& at : lonely.queries) expect_zero_row(g[Gradient::kQ], at);
    for (const Index4& at : lonely.keys) expect_zero_row(g[Gradient::kK], at);
    for (const Index4& at : lonely.keys) expect_zero_row(g[Gradient::kV], at);
  });
}

TEST_P(GradientLaws, hidden_pairs_have_a_bias_gradient_of_0) {
  for_cases(6, case_with_all, [](const Backend& on, Case c) {
    c.bias_spans = {};
    const BackwardInputs in(c);
    const Array d_bias = differentiate(on, in)[Gradient::kBias];
    d_bias.for_each([&](const Index4& at) {
      const double x = d_bias.at(at[0], at[1], at[2], at[3]);
      EXPECT_TRUE(in.call.sees(at[0], at[1], at[2], at[3]) || x == 0) << x;
    });
  });
}

// The sums over what the bias is broadcast to, from the gradient of the same bias in full.
TEST_P(GradientLaws, the_gradient_of_a_broadcast_bias_is_the_sum_of_the_full_one) {
  for_cases(6, case_with_all, [](const Backend& on, Case c) {
    c.pull->wide = true;
    c.pull->summed_bias = c.bias_spans.by_stride = true;
    BackwardInputs in(c);
    const GradientArrays got = differentiate(on, in);
    GradientArrays expected = define_gradients(in);
    in.call.of.pull->summed_bias = false;
    const Array full = differentiate(on, in)[Gradient::kBias];
    Array& sums = expected[Gradient::kBias];
    sums.fill([](const Index4&) { return 0.; });
    full.for_each([&](const Index4& i) {
      Index4 at{};
      for (std::size_t n = 0; n < 4; ++n) at[n] = sums.shape()[n] == 1 ? 0 : i[n];
      sums.set(at, sums.at(at[0], at[1], at[2], at[3]) + full.at(i[0], i[1], i[2], i[3]));
    });
    EXPECT_TRUE(agree(got, expected, in, on));
  });
}

TEST_P(GradientLaws, twice_what_arrives_gives_twice_the_gradients_to_the_bit) {
  for_cases(4, case_with_all, [](const Backend& on, Case c) {
    c.pull->wide = true;
    const BackwardInputs plain(c);
    BackwardInputs twice = plain;
    const auto times = [](const Array& a, double factor) {
      return [&a, factor](const Index4& i) { return factor * a.at(i[0], i[1], i[2], i[3]); };
    };
    for (const auto array : {&Upstream::d_out, &Upstream::d_lse})
      if ((plain.from_above.*array).present())
        (twice.from_above.*array).fill(times(plain.from_above.*array, 2));
    GradientArrays expected = differentiate(on, plain);
    for (Array& a : expected.arrays) {
      const Array once = a;
      a.fill(times(once, 2));
    }
    constexpr double kNormal =
        1e-30;  // so small a sum has terms that lose bits, and twice them less
    EXPECT_TRUE(same_bits(without_tiny_numbers(differentiate(on, twice), kNormal),
                          without_tiny_numbers(expected, kNormal)));
  });
}

TEST_P(GradientLaws, strides_do_not_change_bits) {
  for_cases(8, any_case, [](const Backend& on, const Case& c) {
    const BackwardInputs strided(c);
    BackwardInputs dense = strided;
    Case& plain = dense.call.of;
    plain.q_layout = plain.k_layout = plain.v_layout = plain.out_layout = Layout::kDense;
    plain.pull->layout = plain.pull->d_out_layout = Layout::kDense;
    for (const auto array : {&Inputs::q, &Inputs::k, &Inputs::v})
      dense.call.*array = (strided.call.*array).converted(c.dtype);
    Array& d_out = dense.from_above.d_out;
    d_out = d_out.converted(d_out.dtype());
    EXPECT_TRUE(same_bits(differentiate(on, strided), differentiate(on, dense)));
  });
}

// A NaN or an infinity that some rows see and others do not reaches what the definition says.
TEST_P(GradientLaws, what_is_not_finite_reaches_only_what_sees_it) {
  for_cases(12, any_case, [](const Backend& on, const Case& c) {
    BackwardInputs in(c);
    Dice dice(c.seed);
    Array* const arrays[] = {&in.call.q, &in.call.k, &in.call.v, &in.from_above.d_out};
    Array& array = *dice.pick(arrays);
    if (array.count() == 0) return;
    Index4 at{};
    for (std::size_t n = 0; n < 4; ++n) at[n] = dice.below(array.shape()[n]);
    array.set(at, dice.one_in(3) ? INFINITY : kNaN);
    EXPECT_TRUE(is_right(differentiate(on, in), in, on));
  });
}

// Values that dropout scales beyond float16 make out infinite where the definition, which forms out
// anew, has finite gradients: d_sink too, where the sink has lost its weight and where it has some.
TEST_P(GradientLaws, an_out_that_its_type_cannot_hold_leaves_gradients_finite) {
  const auto make = [](Dice& dice) {
    Case c = case_with_all(dice);
    c.dropout = 0.5f;
    c.pull->wide = true;
    return c;
  };
  for_cases(6, make, [](const Backend& on, const Case& c) {
    if (c.dtype != DType::kFloat16) return;
    for (const double sink : {-200., 0.}) {
      BackwardInputs in(c);
      in.call.v.fill([](const Index4& i) { return i[3] % 2 == 0 ? 60000 : -60000; });
      in.call.sink.fill([sink](const Index4&) { return sink; });
      EXPECT_TRUE(is_right(differentiate(on, in), in, on)) << "sink " << sink;
    }
  });
}

// Where out is 0, NaN from above counts in the rows that see a key, and in no other.
TEST_P(GradientLaws, the_sink_of_rows_with_an_out_of_0_is_right) {
  for_cases(6, case_with_all, [](const Backend& on, const Case& c) {
    BackwardInputs in(c);
    in.call.v.fill([](const Index4&) { return 0.; });
    EXPECT_TRUE(is_right(differentiate(on, with_empty_rows_poisoned(in)), in, on));
    if (in.from_above.d_out.count() > 0) in.from_above.d_out.set({}, kNaN);
    EXPECT_TRUE(is_right(differentiate(on, in), in, on));
  });
}

}  // namespace
}  // namespace tessera::test
