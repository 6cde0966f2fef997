// The accuracy that is promised: the table by dtype, and never worse than twice standard attention.
#include "support/gradients.hpp"
#include "support/law.hpp"
#include "support/naive.hpp"

namespace tessera::test {
namespace {

// ||x - ref|| / ||ref|| at most, over N(0, 1) data, the default scale and D = 64 to 256.
struct Promise {
  DType dtype;
  double relative, gradients;
};
constexpr Promise kPromises[] = {
    {DType::kFloat32, 1e-6, 3e-6}, {DType::kFloat16, 4e-4, 8e-4}, {DType::kBfloat16, 3e-3, 6e-3}};

struct Shape {
  std::int64_t queries, keys, dim;
  bool causal;
};
constexpr Shape kShapes[] = {{128, 128, 64, false},  {130, 130, 128, true}, {40, 512, 256, false},
                             {128, 128, 256, true},  {48, 2048, 64, false}, {24, 2048, 128, false},
                             {12, 2048, 256, false}, {1, 2048, 128, false}};

Case case_of(const Shape& s, DType dtype) {
  Case c{.queries = s.queries,
         .keys = s.keys,
         .heads = 2,
         .kv_heads = 1,
         .dim = s.dim,
         .value_dim = s.dim,
         .dtype = dtype};
  if (s.causal) c.right = 0;
  return c;
}

class Accuracy : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Accuracy, testing::ValuesIn(names_with_hopper()), parameter_name);

TEST_P(Accuracy, keeps_the_table_and_is_never_worse_than_twice_standard_attention) {
  for (const Promise& promise : kPromises)
    for (const Shape& shape : kShapes) {
      const Inputs in(case_of(shape, promise.dtype));
      if (!on().does(in.of)) continue;
      SCOPED_TRACE(on().command(in.of));
      const Outputs definition = define(in), got = run(on(), in);
      EXPECT_TRUE(agree(got, definition, in, on()));
      const core::Deviation ours = deviation(got.out, definition.out);
      const core::Deviation standard = deviation(standard_attention(in), definition.out);
      EXPECT_LE(ours.relative, promise.relative);
      EXPECT_LE(ours.largest, 2 * standard.largest) << "standard attention in the same precision";
    }
}

// Every score is above the 8 for which the table stands: the bound grows with them, and holds.
TEST_P(Accuracy, keeps_the_bound_for_large_scores) {
  for (const Promise& promise : kPromises)
    for (const float scale : {1.f, 4.f}) {
      Case c = case_of(kShapes[0], promise.dtype);
      c.scale = scale;
      if (!on().does(c)) continue;
      const Inputs in(c);
      EXPECT_TRUE(is_right(run(on(), in), in, on()));
    }
}

constexpr Shape kGradientShapes[] = {
    {96, 128, 64, false}, {66, 66, 128, true}, {20, 300, 256, false}, {12, 1024, 64, false}};

class GradientAccuracy : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, GradientAccuracy, testing::ValuesIn(backward_backend_names()),
                         parameter_name);

// Relative to the norm alone: where terms do not cancel, they need not be looked at.
TEST_P(GradientAccuracy, keeps_the_table_and_is_never_worse_than_twice_standard_attention) {
  for (const Promise& promise : kPromises)
    for (const Shape& shape : kGradientShapes) {
      Case c = case_of(shape, promise.dtype);
      c.pull = Pull{};
      const BackwardInputs in(c);
      SCOPED_TRACE(on().command(c));
      const GradientArrays definition = define_gradients(in), got = differentiate(on(), in);
      const StandardGradients standard = standard_gradients(in.call, in.from_above.d_out);
      const Array* const theirs[] = {&standard.dq, &standard.dk, &standard.dv};
      EXPECT_TRUE(agree(got, definition, in, on()));
      for (const Gradient g : {Gradient::kQ, Gradient::kK, Gradient::kV}) {
        const core::Deviation ours = deviation(got[g], definition[g]);
        EXPECT_LE(ours.relative, promise.gradients) << core::kGradientNames[std::size_t(g)];
        EXPECT_LE(ours.largest, 2 * deviation(*theirs[std::size_t(g)], definition[g]).largest)
            << core::kGradientNames[std::size_t(g)] << ", standard attention in this precision";
      }
    }
}

class AccuracySlow : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, AccuracySlow, testing::ValuesIn(names_with_emulator()),
                         parameter_name);

TEST_P(AccuracySlow, keeps_the_table_up_to_16384_keys) {
  for (const Promise& promise : kPromises)
    for (const std::int64_t keys : {8192, 16384}) {
      const Inputs in(case_of({32, keys, 128, false}, promise.dtype));
      const Outputs definition = define(in), got = run(on(), in);
      EXPECT_LE(deviation(got.out, definition.out).relative, promise.relative)
          << on().command(in.of);
      EXPECT_TRUE(agree(got, definition, in, on()));
    }
}

}  // namespace
}  // namespace tessera::test
