// The backward pass through the C interface, where results are known by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/convert.hpp"
#include "unit/api/subject.hpp"

namespace tessera::test {
namespace {

using nlohmann::json;

float* floats(const tessera_tensor& t) { return static_cast<float*>(t.data); }

// The gradients, after the call itself.
Answer attend_and_differentiate(const Subject& s) {
  const Answer answer = attend(s);
  return answer.status == TESSERA_OK ? differentiate(s) : answer;
}

// All keys and values are alike: P = 1/3, dP - D = 0, and each value has what its 3 queries and the
// 2 heads of its group send it: 3 * 2 * 1/3.
TEST(Backward, FillsWhatIsWanted) {
  const Subject s;
  const Answer answer = attend_and_differentiate(s);
  ASSERT_EQ(answer.status, TESSERA_OK) << answer.message;
  for (int i = 0; i < 2 * 3 * 2 * 5; ++i) EXPECT_FLOAT_EQ(floats(s.backward.dv)[i], 2.f);
  for (int i = 0; i < 2 * 3 * 4 * 8; ++i) EXPECT_NEAR(floats(s.backward.dq)[i], 0, 1e-6);
  for (int i = 0; i < 2 * 3 * 2 * 8; ++i) EXPECT_NEAR(floats(s.backward.dk)[i], 0, 1e-6);
}

TEST(Backward, WhatIsNotWantedIsNotTouched) {
  Subject s;
  const tessera_tensor dq = s.backward.dq, dk = s.backward.dk;
  s.backward.dq = s.backward.dk = tessera_tensor_default();
  const float before = floats(dq)[0];
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  EXPECT_FLOAT_EQ(floats(s.backward.dv)[0], 2.f);
  for (int i = 0; i < 2 * 3 * 4 * 8; ++i) EXPECT_EQ(floats(dq)[i], before);
  for (int i = 0; i < 2 * 3 * 2 * 8; ++i) EXPECT_EQ(floats(dk)[i], before);
}

TEST(Backward, AddsToWhatIsThereIfAsked) {
  Subject s;
  s.backward.flags = TESSERA_ACCUMULATE;
  for (int i = 0; i < 2 * 3 * 2 * 5; ++i) floats(s.backward.dv)[i] = float(i);
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  for (int i = 0; i < 2 * 3 * 2 * 5; ++i) EXPECT_FLOAT_EQ(floats(s.backward.dv)[i], float(i) + 2);
}

// d lse / d s_j = P_j = 1/3, and d s_j / d q = scale k_j with k_j = 1/2 everywhere.
TEST(Backward, TheGradientOfLseArrives) {
  Subject s;
  s.backward.d_lse = s.hold(std::vector<float>(24, 4.f), {2, 4, 3});
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  EXPECT_FLOAT_EQ(floats(s.backward.dq)[0], float(4 / std::sqrt(8.) / 2));
}

// A constant bias that is added to every score moves no output: its gradient sums to that of lse.
TEST(Backward, AnExpandedBiasHasAGradientInFullOrSummed) {
  Subject s;
  s.desc.bias = s.hold(std::vector<float>(2), {2, 4, 3, 3});
  for (int d = 1; d < 4; ++d) s.desc.bias.stride[d] = 0;
  s.desc.bias.stride[0] = 1;
  s.backward.d_lse = s.hold(std::vector<float>(24, 1.f), {2, 4, 3});
  s.backward.d_bias = s.poisoned({2, 1, 1, 1});
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  for (int b = 0; b < 2; ++b) EXPECT_FLOAT_EQ(floats(s.backward.d_bias)[b], 12);
  s.backward.d_bias = s.poisoned({2, 4, 3, 3});
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  for (int i = 0; i < 72; ++i) EXPECT_FLOAT_EQ(floats(s.backward.d_bias)[i], 1 / 3.f);
}

TEST(Backward, WithoutKeysEveryGradientIs0) {
  Subject s;
  for (tessera_tensor* t : {&s.desc.k, &s.desc.v, &s.backward.dk, &s.backward.dv}) {
    t->shape[1] = 0;
    t->data = nullptr;
  }
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  for (int i = 0; i < 2 * 3 * 4 * 8; ++i) EXPECT_EQ(floats(s.backward.dq)[i], 0.f);
}

TEST(Backward, WithoutQueriesTheGradientsOfKeysAre0) {
  Subject s;
  for (tessera_tensor* t : {&s.desc.q, &s.desc.out, &s.backward.d_out, &s.backward.dq}) {
    t->shape[1] = 0;
    t->data = nullptr;
  }
  s.desc.lse.shape[2] = 0;
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  for (int i = 0; i < 2 * 3 * 2 * 8; ++i) EXPECT_EQ(floats(s.backward.dk)[i], 0.f);
}

TEST(Backward, WhatItReadsMayBeReadOnlyOrExpanded) {
  Subject s;
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  s.desc.out.flags = s.desc.lse.flags = s.backward.d_out.flags = TESSERA_READ_ONLY;
  for (std::int64_t& stride : s.backward.d_out.stride) stride = 0;
  EXPECT_EQ(differentiate(s).message, "");
  EXPECT_FLOAT_EQ(floats(s.backward.dv)[0], 2.f);
}

// What the call was lent to be computed with may be used for anything since.
TEST(Backward, TheWorkspaceOfTheCallIsLeftAlone) {
  Subject s;
  double score_max = 7;
  s.desc.backend = TESSERA_BACKEND_REFERENCE;
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  s.desc.workspace = s.backward.dq.data = s.workspace();
  s.desc.workspace_bytes = 64;
  s.desc.score_max = &score_max;
  EXPECT_EQ(differentiate(s).message, "");
  EXPECT_EQ(score_max, 7);
}

TEST(Backward, GradientsOf16BitsMayBeFloat32) {
  Subject s;
  const std::vector<std::uint16_t> one(192, 0x3c00);
  for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out, &s.backward.d_out}) {
    t->data = s.keep(one);
    t->dtype = TESSERA_FLOAT16;
  }
  s.backward.dq.dtype = TESSERA_FLOAT16;
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  EXPECT_FLOAT_EQ(floats(s.backward.dv)[0], 2.f);
}

TEST(Backward, ACallerOfTomorrowWhoUsesNothingNewIsServed) {
  const Subject s;
  struct {
    tessera_attention_backward_desc desc;
    std::uint64_t tomorrow[3];
  } newer{s.backward, {}};
  newer.desc.size = sizeof newer;
  newer.desc.forward = &s.desc;
  const TemporaryContext temporary(s.config);
  EXPECT_EQ(tessera_attention_backward(temporary.context, &newer.desc, nullptr), TESSERA_OK);
  EXPECT_FALSE(s.outputs_untouched());
}

// P = 1/3; dP sums 5 terms 1 * 2, D as many; k = 1/2 and scale = 1 / sqrt(8).
TEST(Backward, TheReferenceReportsTheTerms) {
  Subject s;
  std::vector<double> norms(10, -1);
  s.desc.backend = TESSERA_BACKEND_REFERENCE;
  s.backward.term_norms = norms.data();
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  const double rows = 2 * 4 * 3, scale = 1 / 8., keys = 8 * 0.25, queries = 8 * 0.0625;
  EXPECT_NEAR(norms[0], std::sqrt(rows * scale * 20 * (1 / 3. + 1) * keys), 1e-6);
  EXPECT_NEAR(norms[1], std::sqrt(rows * scale * 20 * keys), 1e-6);
  EXPECT_NEAR(norms[2], std::sqrt(rows * scale * 3 / 9. * 40 * queries), 1e-6);
  EXPECT_NEAR(norms[3], std::sqrt(rows * scale * 3 / 9. * 20 * queries), 1e-6);
  EXPECT_NEAR(norms[4], std::sqrt(rows * 3 / 9. * 5), 1e-6);
  EXPECT_EQ(norms[5], 0);
}

std::string described(const Subject& s, const tessera_attention_backward_desc& desc) {
  const TemporaryContext temporary(s.config);
  tessera_error error = tessera_error_default();
  std::string text(4096, '\0');
  tessera_backward_plan_describe(temporary.context, &desc, text.data(), text.size(), nullptr,
                                 &error);
  return error.status == TESSERA_OK ? text.c_str() : error.message;
}

TEST(Backward, ThePlanIsToldWithoutData) {
  Subject s;
  for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out, &s.backward.d_out})
    t->data = nullptr;
  s.desc.lse = s.backward.dk = tessera_tensor_default();
  s.backward.flags = TESSERA_ACCUMULATE;
  s.backward.forward = &s.desc;
  const std::string text = described(s, s.backward);
  ASSERT_EQ(text.substr(0, 1), "{") << text;
  const json plan = json::parse(text);
  EXPECT_EQ(plan["gradients"], json({"dq", "dv"}));
  EXPECT_EQ(plan["accumulate"], true);
  EXPECT_EQ(plan["problem"]["heads"], 4);
  EXPECT_TRUE(s.outputs_untouched());
}

TEST(Backward, TheWorkspaceThatThePlanTellsSuffices) {
  Subject s;
  s.backward.forward = &s.desc;
  ASSERT_EQ(attend_and_differentiate(s).message, "");
  const std::vector<float> own(floats(s.backward.dk), floats(s.backward.dk) + 96);
  const auto bytes = json::parse(described(s, s.backward))["workspace_bytes"].get<std::uint64_t>();
  std::vector<std::byte> memory(bytes + 63);
  const auto rest = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  s.backward.workspace = memory.data() + (64 - rest) % 64;
  s.backward.workspace_bytes = bytes - 1;
  EXPECT_EQ(differentiate(s).status, TESSERA_INVALID_ARGUMENT);
  s.backward.workspace_bytes = bytes;
  ASSERT_EQ(differentiate(s).message, "");
  EXPECT_EQ(std::vector<float>(floats(s.backward.dk), floats(s.backward.dk) + 96), own);
}

TEST(Backward, EachTensorArrives) {
  Subject s;
  s.desc.sink = s.hold(std::vector<float>(4), {4});
  s.backward.d_sink = s.poisoned({4});
  s.backward.d_lse = s.hold(std::vector<float>(24), {2, 4, 3});
  const auto [problem, g, backend, workspace, bytes, norms] =
      api::convert(s.backward, s.desc, api::Purpose::kRun);
  EXPECT_EQ(problem.lse.data, s.desc.lse.data);
  EXPECT_EQ(g.d_out.data, s.backward.d_out.data);
  EXPECT_EQ(g.d_lse.data, s.backward.d_lse.data);
  EXPECT_EQ(g.dq.data, s.backward.dq.data);
  EXPECT_EQ(g.dk.data, s.backward.dk.data);
  EXPECT_EQ(g.dv.data, s.backward.dv.data);
  EXPECT_EQ(g.d_sink.data, s.backward.d_sink.data);
  EXPECT_FALSE(g.d_bias.present() || g.accumulate);
}

}  // namespace
}  // namespace tessera::test
