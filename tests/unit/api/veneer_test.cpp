// The C++ face: the same calls, with exceptions.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "tessera/tessera.hpp"
#include "tessera/version.h"

namespace tessera::test {
namespace {

using nlohmann::json;

// [1, 3, 1, 2]: the value of key j is (j, 10 j), and all scores are 0.
struct Example {
  std::vector<float> q = std::vector<float>(6), k = std::vector<float>(6);
  std::vector<float> v{0, 0, 1, 10, 2, 20}, out = std::vector<float>(6);
  Context context{{.threads = 1}};

  void attend(const Options& options = {}) {
    attention(context, tensor(out), tensor(q), tensor(k), tensor(v), options);
  }
  static Tensor tensor(std::vector<float>& x) { return {std::span(x), {1, 3, 1, 2}}; }
};

TEST(Veneer, AttendsToAllKeysByDefault) {
  Example e;
  e.attend();
  EXPECT_EQ(e.out, (std::vector<float>{1, 10, 1, 10, 1, 10}));
}

TEST(Veneer, OptionsDescribeThemselves) {
  Example e;
  std::vector<float> lse(3);
  e.attend({.mask = causal(), .softcap = 30, .lse = {lse.data(), {1, 1, 3}}});
  EXPECT_EQ(e.out, (std::vector<float>{0, 0, 0.5f, 5, 1, 10}));
  EXPECT_FLOAT_EQ(lse[2], std::log(3.f));
  e.attend({.mask = window(0)});
  EXPECT_EQ(e.out, e.v);
  e.attend({.mask = window(0, 1)});
  EXPECT_EQ(e.out, (std::vector<float>{0.5f, 5, 1.5f, 15, 2, 20}));
  e.attend({.mask = causal(), .align = offset(1)});
  EXPECT_EQ(e.out, (std::vector<float>{0.5f, 5, 1, 10, 1, 10}));
}

TEST(Veneer, EveryOptionArrives) {
  Example e;
  const float sink = 0, slope = 1;
  const bool mask[] = {true, false, true};
  const float bias[] = {0, 0, -INFINITY};
  const std::int32_t length = 2;
  const std::int64_t start = 1;
  e.attend({.sink = {&sink, {1}}});
  EXPECT_FLOAT_EQ(e.out[0], 3 / 4.f);
  e.attend({.boolean_mask = {mask, {1, 1, 1, 3}}});
  EXPECT_FLOAT_EQ(e.out[0], 1);
  e.attend({.boolean_mask = {mask, {1, 1, 1, 3}}, .bias = {bias, {1, 1, 1, 3}}});
  EXPECT_FLOAT_EQ(e.out[0], 0);
  e.attend({.kv_lengths = {&length, {1}}});
  EXPECT_FLOAT_EQ(e.out[0], 0.5f);
  e.attend({.kv_lengths = {&length, {1}}, .kv_starts = {&start, {1}}});
  EXPECT_FLOAT_EQ(e.out[0], 1);
  e.attend({.alibi = {&slope, {1}}});
  EXPECT_FLOAT_EQ(e.out[0],
                  float((std::exp(-1.) + 2 * std::exp(-2.)) / (1 + std::exp(-1.) + std::exp(-2.))));
}

TEST(Veneer, PackedSequencesPagesDropoutAndStates) {
  Example e;
  const std::int32_t boundaries[] = {0, 1, 3}, table[] = {0}, three = 3;
  e.attend({.cu_seqlens_q = {boundaries, {3}}, .cu_seqlens_k = {boundaries, {3}}});
  EXPECT_EQ(e.out, (std::vector<float>{0, 0, 1.5f, 15, 1.5f, 15}));
  e.attend({.kv_lengths = {&three, {1}}, .block_table = {table, {1, 1}}});
  EXPECT_FLOAT_EQ(e.out[0], 1);
  const std::vector<float> before(6, 4.f);
  const std::vector<float> lse(3, std::log(3.f));
  e.attend({.state_out = {before.data(), {1, 3, 1, 2}}, .state_lse = {lse.data(), {1, 1, 3}}});
  EXPECT_FLOAT_EQ(e.out[0], 2.5f);
  e.attend({.dropout = {.p = 0.999f, .seed = 1}});
  EXPECT_FLOAT_EQ(e.out[0], 0);
}

// All scores are 0, so each value has 1/3 of what the three rows of d_out send.
TEST(Veneer, Gradients) {
  Example e;
  std::vector<float> lse(3), d_out{1, 2, 3, 4, 5, 6}, dv(6, 1.f), dq(6);
  const Call call{Example::tensor(e.out),
                  Example::tensor(e.q),
                  Example::tensor(e.k),
                  Example::tensor(e.v),
                  {.lse = {lse.data(), {1, 1, 3}}}};
  e.attend(call.options);
  attention_backward(e.context, {.dv = Example::tensor(dv)}, Example::tensor(d_out), call);
  EXPECT_EQ(dv, (std::vector<float>{3, 4, 3, 4, 3, 4}));
  const Gradients more{.dq = Example::tensor(dq),
                       .dv = Example::tensor(dv),
                       .d_lse = {lse.data(), {1, 1, 3}},
                       .accumulate = true};
  attention_backward(e.context, more, Example::tensor(d_out), call);
  EXPECT_EQ(dv, (std::vector<float>{6, 8, 6, 8, 6, 8}));
  EXPECT_EQ(dq, std::vector<float>(6));
  const json plan = json::parse(plan_backward(e.context, more, Example::tensor(d_out), call));
  EXPECT_EQ(plan["gradients"], json({"dq", "dv"}));
  EXPECT_THROW(attention_backward(e.context, {}, Example::tensor(d_out), call), Error);
}

TEST(Veneer, ErrorsCarryStatusAndSentence) {
  Example e;
  try {
    e.attend({.scale = -1});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(error.what()).substr(0, 11), "scale is -1");
  }
  EXPECT_THROW(Context({.cpu_target = "abacus"}), Error);
}

TEST(Veneer, ConstElementsAreNeverWritten) {
  Example e;
  const std::vector<float> result(6);
  EXPECT_THROW(attention(e.context, {result.data(), {1, 3, 1, 2}}, e.tensor(e.q), e.tensor(e.k),
                         e.tensor(e.v)),
               Error);
}

TEST(Veneer, TensorsAreDenseUnlessStridesAreGiven) {
  float x[24];
  const tessera_tensor dense = Tensor(x, {2, 3, 4}).c(), free = Tensor(x, {2, 3}, {1, 2}).c();
  EXPECT_EQ(std::vector(dense.stride, dense.stride + 4), (std::vector<std::int64_t>{12, 4, 1, 1}));
  EXPECT_EQ(std::vector(free.stride, free.stride + 2), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(dense.dtype, std::uint32_t{TESSERA_FLOAT32});
  EXPECT_EQ(Tensor(static_cast<bfloat16*>(nullptr), {0}).c().dtype,
            std::uint32_t{TESSERA_BFLOAT16});
  EXPECT_EQ(Tensor().c().data, nullptr);
}

TEST(Veneer, WrongCountsOfElementsAndSizesAreRefused) {
  std::vector<float> x(6);
  EXPECT_THROW(Tensor(std::span(x), {1, 3, 1, 3}), Error);
  EXPECT_THROW(Tensor(x.data(), {1, 1, 1, 1, 6}), Error);
  EXPECT_THROW(Tensor(x.data(), {2, 3}, {1}), Error);
}

TEST(Veneer, PlansAndContextsDescribeThemselves) {
  Example e;
  const Tensor shape(static_cast<float*>(nullptr), {1, 3, 1, 2});
  const json text = json::parse(plan(e.context, shape, shape, shape, shape, {.mask = causal()}));
  EXPECT_EQ(text["problem"]["right"], 0);
  EXPECT_EQ(json::parse(e.context.describe())["threads"], 1);
  EXPECT_EQ(version(), TESSERA_VERSION_STRING);
}

TEST(Veneer, ContextsMove) {
  Context first({.threads = 1});
  tessera_context* inside = first.c();
  const Context second = std::move(first);
  EXPECT_EQ(second.c(), inside);
}

}  // namespace
}  // namespace tessera::test
