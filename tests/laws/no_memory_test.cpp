// Each allocation of each call fails in turn: the status says so, nothing leaks, and no half of a
// result is left: outputs hold what they held, or NaN throughout.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "support/law.hpp"
#include "support/no_memory.hpp"

namespace tessera::test {
namespace {

using Call = std::function<tessera_status(tessera_context*, tessera_error*)>;

// A call, and the arrays that it writes, which hold `held` before.
struct Act {
  Call call;
  std::vector<Array*> written;
  std::vector<Array> held;

  Act(Call what, std::vector<Array*> outputs) : call(std::move(what)), written(std::move(outputs)) {
    for (const Array* a : written) held.push_back(*a);
  }
  // In place, since the call points at them.
  void reset() const {
    for (std::size_t n = 0; n < written.size(); ++n)
      written[n]->fill([&](const Index4& i) { return held[n].at(i[0], i[1], i[2], i[3]); });
  }
};

enum class Left { kHeld, kNaN, kHalf };

Left left_in(const Array& a, const Array& held) {
  if (a.elements() == held.elements()) return Left::kHeld;
  for (const double x : values(a))
    if (!std::isnan(x)) return Left::kHalf;
  return Left::kNaN;
}

struct Attempt {
  tessera_status status;
  tessera_error error = tessera_error_default();
  bool failed = false;  // an allocation
  std::int64_t leaked = 0;
};

Attempt attempt(const Act& act, const tessera_context_config& config, std::int64_t before,
                bool for_good) {
  Attempt result{};
  const std::int64_t blocks = live_blocks();
  tessera_context* context = nullptr;
  tessera_context_create(&config, &context, nullptr);
  {
    const FailingAllocation failing(before, for_good);
    result.status = act.call(context, &result.error);
    result.failed = failing.happened();
  }
  tessera_context_destroy(context);
  result.leaked = live_blocks() - blocks;
  return result;
}

void expect_all_or_nothing(const Attempt& one, const Act& act, const std::vector<Array>& right) {
  EXPECT_EQ(one.leaked, 0);
  EXPECT_EQ(one.error.status, one.status);
  if (one.status != TESSERA_OK) {
    EXPECT_EQ(one.status, TESSERA_OUT_OF_MEMORY) << one.error.message;
    EXPECT_NE(one.error.message[0], 0);
  }
  for (std::size_t n = 0; n < right.size(); ++n) {
    if (one.status == TESSERA_OK)
      EXPECT_TRUE(same_bits(*act.written[n], right[n])) << "array " << n;
    else
      EXPECT_NE(left_in(*act.written[n], act.held[n]), Left::kHalf) << "array " << n;
  }
}

class NoMemoryLaw : public OnEveryBackend {
 protected:
  void SetUp() override {
    if (!NoMemory::possible()) GTEST_SKIP() << "operator new is not ours";
  }

  // Fails the first, the second, ... until none is left to fail; returns how many there were.
  static std::int64_t fail_each(const Act& act, int threads = 1) {
    const tessera_context_config config = config_of(GetParam(), threads);
    act.reset();
    const Attempt whole = attempt(act, config, 1'000'000, false);
    EXPECT_EQ(whole.status, TESSERA_OK) << whole.error.message;
    EXPECT_EQ(whole.leaked, 0);
    std::vector<Array> right;
    for (const Array* a : act.written) right.push_back(*a);
    std::int64_t count = 0;
    while (one_fails(act, config, right, count)) ++count;
    return count;
  }

 private:
  // Whether there is an allocation of number n to fail.
  static bool one_fails(const Act& act, const tessera_context_config& config,
                        const std::vector<Array>& right, std::int64_t n) {
    bool failed = false;
    for (const bool for_good : {false, true}) {
      act.reset();
      const Attempt one = attempt(act, config, n, for_good);
      SCOPED_TRACE(std::to_string(n) + (for_good ? ", and all after it" : ""));
      expect_all_or_nothing(one, act, right);
      failed = failed || one.failed;
    }
    return failed && !HasFailure();
  }
};
INSTANTIATE_TEST_SUITE_P(On, NoMemoryLaw, testing::ValuesIn(backend_names()), parameter_name);

// ---- Calls ----

const Case kSmall{
    .batch = 2, .queries = 9, .keys = 12, .heads = 2, .kv_heads = 1, .dim = 8, .value_dim = 5};

Case for_two_threads() {
  Case c{.batch = 1, .queries = 161, .keys = 170, .heads = 4, .kv_heads = 2};
  c.dim = c.value_dim = 32;
  return c;
}

// Row 0 sees the last key alone, nobody else does, and its value is infinite: the other rows come
// from the careful path, and most of every result is finite.
Inputs careful(const Case& c) {
  Inputs in(c);
  in.mask = Array(DType::kBool, {1, 1, c.queries, c.keys});
  in.mask.fill([&](const Index4& i) { return (i[2] == 0) == (i[3] == c.keys - 1) ? 1. : 0.; });
  for (std::int64_t b = 0; b < c.batch; ++b) in.v.set({b, c.keys - 1, 0, 1}, INFINITY);
  return in;
}

struct Forward {
  Inputs in;
  Outputs to;
  tessera_attention_desc desc;

  Forward(Inputs inputs, const Backend& on)
      : in(std::move(inputs)), to(in.of), desc(describe(in, to)) {
    desc.backend = number_of(on);
  }
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  Act act() {
    return {[this](auto* context, auto* error) { return tessera_attention(context, &desc, error); },
            {&to.out, &to.lse}};
  }
};

TEST_P(NoMemoryLaw, of_a_call) {
  Forward call(Inputs(kSmall), on());
  EXPECT_GT(fail_each(call.act()), 0);
}

TEST_P(NoMemoryLaw, of_a_call_with_infinities) {
  Forward call(careful(kSmall), on());
  EXPECT_GT(fail_each(call.act()), 10) << "the careful path needs memory";
}

TEST_P(NoMemoryLaw, of_a_packed_call) {
  Case c = kSmall;
  c.cu_q = {0, 2, 9}, c.cu_k = {0, 12, 12};
  c.spare_rows = 2;
  if (!on().does(c)) return;
  Forward call(Inputs(c), on());
  EXPECT_GT(fail_each(call.act()), 0);
}

TEST_P(NoMemoryLaw, of_a_call_on_two_threads) {
  if (on().is_reference()) return;
  Forward call(Inputs(for_two_threads()), on());
  EXPECT_GT(fail_each(call.act(), 2), 2) << "threads need memory";
}

TEST_P(NoMemoryLaw, of_a_context) {
  tessera_context_config config = config_of(GetParam(), 2);
  const Act act{[&](auto*, auto* error) {
                  tessera_context* context = nullptr;
                  const tessera_status status = tessera_context_create(&config, &context, error);
                  EXPECT_EQ(context == nullptr, status != TESSERA_OK);
                  tessera_context_destroy(context);
                  return status;
                },
                {}};
  EXPECT_GT(fail_each(act), 0);
}

// ---- Gradients ----

// All gradients of a call, with a bias and a sink.
struct Backward {
  Forward call;
  Array d_out, dq, dk, dv, d_bias, d_sink;
  tessera_attention_backward_desc desc = tessera_attention_backward_desc_default();

  Backward(const Inputs& inputs, const Backend& on)
      : call(inputs, on),
        d_out(call.in.q.dtype(), call.to.out.shape()),
        dq(DType::kFloat32, call.in.q.shape()),
        dk(DType::kFloat32, call.in.k.shape()),
        dv(DType::kFloat32, call.in.v.shape()),
        d_bias(call.in.bias.present() ? Array(DType::kFloat32, call.in.bias.shape()) : Array()),
        d_sink(DType::kFloat32, call.in.sink.shape()) {
    EXPECT_EQ(tessera_attention(on.context, &call.desc, nullptr), TESSERA_OK);
    d_out.fill([](const Index4& i) { return double(i[1] + i[3]) - 3; });
    desc.forward = &call.desc;
    desc.d_out = d_out.abi();
    desc.dq = dq.abi(), desc.dk = dk.abi(), desc.dv = dv.abi();
    desc.d_bias = d_bias.abi(), desc.d_sink = d_sink.abi();
  }
  Act act() {
    return {[this](auto* context, auto* error) {
              return tessera_attention_backward(context, &desc, error);
            },
            arrays()};
  }
  std::vector<Array*> arrays() {
    std::vector<Array*> all{&dq, &dk, &dv, &d_sink};
    if (d_bias.present()) all.push_back(&d_bias);
    return all;
  }
  // Adds to numbers rather than writes over poison.
  void accumulate() {
    desc.flags = TESSERA_ACCUMULATE;
    for (Array* a : arrays()) a->fill([](const Index4& i) { return double(i[3] + 1); });
  }
};

Case with_bias_and_sink(Case c) {
  c.bias = BiasKind::kNormal;
  c.sink = true;
  return c;
}

bool differentiates(const Backend& on) { return !on.name.starts_with("standard/"); }

TEST_P(NoMemoryLaw, of_gradients) {
  if (!differentiates(on())) return;
  for (const bool accumulate : {false, true}) {
    Backward pass(Inputs(with_bias_and_sink(kSmall)), on());
    if (accumulate) pass.accumulate();
    EXPECT_GT(fail_each(pass.act()), 1);
  }
}

TEST_P(NoMemoryLaw, of_gradients_with_infinities) {
  if (!differentiates(on())) return;
  for (const bool accumulate : {false, true}) {
    Backward pass(careful(with_bias_and_sink(kSmall)), on());
    if (accumulate) pass.accumulate();
    EXPECT_GT(fail_each(pass.act()), 10) << "the careful path needs memory";
  }
}

TEST_P(NoMemoryLaw, of_gradients_of_packed_sequences) {
  if (!differentiates(on())) return;
  Case c = with_bias_and_sink(kSmall);
  c.cu_q = {0, 2, 9}, c.cu_k = {0, 12, 12};
  c.spare_rows = 2;
  Backward pass(Inputs(c), on());
  EXPECT_GT(fail_each(pass.act()), 1);
}

TEST_P(NoMemoryLaw, of_gradients_on_two_threads) {
  if (!differentiates(on()) || on().is_reference()) return;
  Case c = for_two_threads();
  c.sink = true;  // a bias has tasks that need memory, too many to fail each
  Backward pass(Inputs(c), on());
  EXPECT_GT(fail_each(pass.act(), 2), 2) << "threads need memory";
}

// ---- Descriptions ----

using Describe = std::function<tessera_status(tessera_context*, char*, std::uint64_t,
                                              std::uint64_t*, tessera_error*)>;

// The text, whole, where the call succeeds; where it does not, the buffer is left alone.
Act text_or_nothing(Describe describe) {
  return {[describe = std::move(describe)](auto* context, auto* error) {
            std::array<char, 8192> text;  // on the stack: it needs no memory
            text.fill('#');
            std::uint64_t needed = 0;
            const tessera_status status =
                describe(context, text.data(), text.size(), &needed, error);
            if (status == TESSERA_OK)
              EXPECT_EQ(needed, std::strlen(text.data()) + 1);
            else
              EXPECT_EQ(std::count(text.begin(), text.end(), '#'), std::ptrdiff_t(text.size()));
            return status;
          },
          {}};
}

TEST_P(NoMemoryLaw, of_the_description_of_a_context) {
  EXPECT_GT(fail_each(text_or_nothing(tessera_context_describe)), 20);
}

TEST_P(NoMemoryLaw, of_the_description_of_a_call) {
  Forward call(Inputs(with_bias_and_sink(kSmall)), on());
  call.desc.align = TESSERA_ALIGN_OFFSET;
  EXPECT_GT(fail_each(text_or_nothing([&](auto* context, auto... rest) {
              return tessera_plan_describe(context, &call.desc, rest...);
            })),
            20);
}

TEST_P(NoMemoryLaw, of_the_description_of_gradients) {
  if (!differentiates(on())) return;
  Backward pass(Inputs(with_bias_and_sink(kSmall)), on());
  EXPECT_GT(fail_each(text_or_nothing([&](auto* context, auto... rest) {
              return tessera_backward_plan_describe(context, &pass.desc, rest...);
            })),
            20);
}

// ---- States and caches ----

TEST_P(NoMemoryLaw, of_a_merge_in_place) {
  Outputs first = run(on(), Inputs(kSmall));
  Case other = kSmall;
  other.seed = 2;
  const Outputs second = run(on(), Inputs(other));
  const tessera_state states[] = {{first.out.abi(), first.lse.abi()},
                                  {second.out.abi(), second.lse.abi()}};
  tessera_merge_desc desc = tessera_merge_desc_default();
  desc.states = states;
  desc.count = 2;
  desc.out = first.out.abi();
  desc.lse = first.lse.abi();
  EXPECT_GT(
      fail_each({[&](auto* context, auto* error) { return tessera_merge(context, &desc, error); },
                 {&first.out, &first.lse}}),
      2);
}

// Angles for 16 positions of 4 pairs.
struct Tables {
  Array cos{DType::kFloat32, {16, 4, 1, 1}}, sin = cos;

  Tables() {
    cos.fill([](const Index4& i) { return std::cos(double(i[0] * (i[1] + 1))); });
    sin.fill([](const Index4& i) { return std::sin(double(i[0] * (i[1] + 1))); });
  }
};

TEST_P(NoMemoryLaw, of_a_rotation_in_place) {
  const Tables tables;
  Array x = Inputs(kSmall).q;
  tessera_rotate_desc desc = tessera_rotate_desc_default();
  desc.x = desc.out = x.abi();
  desc.cos = tables.cos.abi(), desc.sin = tables.sin.abi();
  const auto rotate = [&](auto* context, auto* error) {
    return tessera_rotate(context, &desc, error);
  };
  EXPECT_GT(fail_each({rotate, {&x}}), 0);
}

TEST_P(NoMemoryLaw, of_appending) {
  const Tables tables;
  Inputs cache(kSmall);
  Array fresh_k(DType::kFloat32, {2, 3, 1, 8}), fresh_v(DType::kFloat32, {2, 3, 1, 5});
  for (Array* a : {&fresh_k, &fresh_v})
    a->fill([](const Index4& i) { return double(i[1] - i[3]); });
  Array lengths(DType::kInt32, {2, 1, 1, 1});
  lengths.fill([](const Index4& i) { return double(4 + i[0]); });
  tessera_append_desc desc = tessera_append_desc_default();
  desc.k = fresh_k.abi(), desc.v = fresh_v.abi();
  desc.k_cache = cache.k.abi(), desc.v_cache = cache.v.abi();
  desc.kv_lengths = lengths.abi();
  desc.cos = tables.cos.abi(), desc.sin = tables.sin.abi();
  const auto append = [&](auto* context, auto* error) {
    return tessera_append(context, &desc, error);
  };
  EXPECT_GT(fail_each({append, {&cache.k, &cache.v}}), 0);
}

}  // namespace
}  // namespace tessera::test
