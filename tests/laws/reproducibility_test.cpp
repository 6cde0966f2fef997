// The same call gives the same bits: again, on more threads, from other strides, among neighbours.
#include "support/law.hpp"

namespace tessera::test {
namespace {

class Reproducibility : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Reproducibility, testing::ValuesIn(names_with_emulator()),
                         parameter_name);

Case any_case(Dice& dice) { return random_case(dice, {.work = 300'000}); }

Case any_call(Dice& dice) { return random_call(dice, {.work = 300'000}); }

Case large_call(Dice& dice) { return random_call(dice, kForThreads); }

TEST_P(Reproducibility, two_runs_give_the_same_bits) {
  for_cases(6, any_call, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    EXPECT_TRUE(same_bits(run(on, in), run(on, in)));
  });
}

TEST_P(Reproducibility, any_number_of_threads_gives_the_same_bits) {
  if (on().is_emulator()) GTEST_SKIP() << "a GPU kernel has the number of threads of its tiles";
  for_cases(8, large_call, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    EXPECT_TRUE(same_bits(run(backend(on.name, 1), in), run(on, in)));
  });
}

TEST_P(Reproducibility, strides_do_not_change_bits) {
  for_cases(8, any_case, [](const Backend& on, const Case& c) {
    Inputs strided(c);
    Case plain = c;
    plain.q_layout = plain.k_layout = plain.v_layout = plain.out_layout = Layout::kDense;
    Inputs dense = strided;
    dense.of = plain;
    dense.q = strided.q.converted(c.dtype);
    dense.k = strided.k.converted(c.dtype);
    dense.v = strided.v.converted(c.dtype);
    EXPECT_TRUE(same_bits(run(on, strided), run(on, dense)));
  });
}

TEST_P(Reproducibility, every_layout_of_one_tensor_gives_the_same_bits) {
  Case c{.batch = 2,
         .queries = 17,
         .keys = 101,
         .heads = 2,
         .kv_heads = 2,
         .dim = 40,
         .value_dim = 24};
  for_case(c, [](const Backend& on, const Case& plain) {
    const Inputs dense(plain);
    const Outputs expected = run(on, dense);
    for (const Layout layout : kLayouts) {
      if (layout == Layout::kSharedByHeads) continue;  // it cannot hold these numbers
      for (int which = 0; which < 4; ++which) {
        Inputs in = dense;
        Array* tensors[] = {&in.q, &in.k, &in.v};
        if (which < 3) *tensors[which] = tensors[which]->converted(plain.dtype, layout);
        if (which == 3) in.of.out_layout = layout;
        EXPECT_TRUE(same_bits(run(on, in), expected)) << name_of(layout) << " of tensor " << which;
      }
    }
  });
}

// The call that batch `b` makes alone.
Inputs alone(const Inputs& in, std::int64_t b) {
  Inputs one = in;
  const auto cut = [b](const Array& a) {
    if (!a.present()) return a;
    Index4 shape = a.shape();
    const bool by_batch = shape[0] > 1;
    shape[0] = 1;
    Array result(a.dtype(), shape);
    result.fill([&](const Index4& i) { return a.at(by_batch ? b : 0, i[1], i[2], i[3]); });
    return result;
  };
  one.of.batch = 1;
  for (Array* a : {&one.q, &one.k, &one.v, &one.mask, &one.bias}) *a = cut(*a);
  for (Array* a : {&one.kv_lengths, &one.kv_starts, &one.offsets}) *a = cut(*a);
  if (in.of.alibi_by_batch) one.alibi = cut(one.alibi);
  return one;
}

TEST_P(Reproducibility, a_batch_gives_the_bits_that_it_gives_alone) {
  for_cases(6, any_case, [](const Backend& on, const Case& c) {
    if (c.batch < 2) return;
    const Inputs in(c);
    const Outputs together = run(on, in);
    const Outputs single = run(on, alone(in, 1));
    for (std::int64_t i = 0; i < c.queries; ++i)
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t d = 0; d < c.value_dim; ++d)
          ASSERT_EQ(together.out.at(1, i, h, d), single.out.at(0, i, h, d)) << i << ' ' << h;
  });
}

TEST_P(Reproducibility, not_asking_for_lse_does_not_change_the_output) {
  for_cases(4, any_case, [](const Backend& on, Case c) {
    c.lse = true;
    const Inputs with(c);
    c.lse = false;
    EXPECT_TRUE(same_bits(run(on, with).out, run(on, Inputs(c)).out));
  });
}

}  // namespace
}  // namespace tessera::test
