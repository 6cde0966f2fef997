// Several callers at once, forward and backward, through the C interface. ThreadSanitizer runs
// these; elsewhere they see results that another caller's work got into.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/gradients.hpp"
#include "unit/cpu/calls.hpp"

namespace tessera::test {
namespace {

// Work for several threads in some of them, for one in the others.
std::vector<BackwardInputs> inputs() {
  std::vector<BackwardInputs> all;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Case c = case_for_threads(seed);
    c.batch = 1;
    c.bias = BiasKind::kNormal;
    c.sink = true;
    if (seed % 2 == 0) c.queries = 9;
    if (seed == 3) c.cu_q = {0, 70, 161}, c.cu_k = {0, 100, 170}, c.batch = 2;
    c.pull = Pull{};
    all.emplace_back(c);
  }
  return all;
}

// What differentiate() does without the checks of a test, which are for one thread.
GradientArrays gradients_of(const Backend& on, const BackwardInputs& in) {
  Outputs out(in.of());
  GradientArrays to(in);
  tessera_attention_desc call = describe(in.call, out);
  to.status = tessera_attention(on.context, &call, nullptr);
  const tessera_attention_backward_desc desc = describe(in, to, call);
  if (to.status == TESSERA_OK) to.status = tessera_attention_backward(on.context, &desc, nullptr);
  return to;
}

// Calls of one thread that differ from those made alone.
void call_again(const Backend& on, const std::vector<BackwardInputs>& in,
                const std::vector<GradientArrays>& alone, std::atomic<int>& different) {
  for (std::size_t round = 0; round < 2; ++round)
    for (std::size_t n = 0; n < in.size(); ++n) {
      const GradientArrays got = gradients_of(on, in[n]);
      if (got.status != TESSERA_OK || !same_bits(got, alone[n])) ++different;
    }
}

std::vector<GradientArrays> made_alone(const std::vector<BackwardInputs>& in) {
  std::vector<GradientArrays> alone;
  const Context context(config_of("cpu/" + std::string(best_target()), 1));
  for (const BackwardInputs& one : in) alone.push_back(gradients_of(context.as("cpu"), one));
  return alone;
}

TEST(ContextCallers, FourThreadsShareOneContext) {
  const auto in = inputs();
  const auto alone = made_alone(in);
  const Context shared(config_of("cpu/" + std::string(best_target()), 2));
  std::atomic<int> different{0};
  std::vector<std::thread> callers;
  for (int n = 0; n < 4; ++n)
    callers.emplace_back([&] { call_again(shared.as("cpu"), in, alone, different); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(different, 0);
}

TEST(ContextCallers, TwoContextsSideBySide) {
  const auto in = inputs();
  const auto alone = made_alone(in);
  std::atomic<int> different{0};
  std::vector<std::thread> callers;
  for (int n = 0; n < 2; ++n)
    callers.emplace_back([&] {
      const Context own(config_of("cpu/" + std::string(best_target()), 3));
      call_again(own.as("cpu"), in, alone, different);
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace tessera::test
