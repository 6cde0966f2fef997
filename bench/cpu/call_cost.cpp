// What a call costs beside its arithmetic: the smallest call through the C interface, its parts.
//
//   bench_call_cost --benchmark_repetitions=15 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/tessera.h"

namespace {

struct Deleter {
  void operator()(tessera_context* context) const { tessera_context_destroy(context); }
};
using Context = std::unique_ptr<tessera_context, Deleter>;

Context make_context(std::int32_t threads) {
  tessera_context_config config = tessera_context_config_default();
  config.threads = threads;
  tessera_context* context = nullptr;
  return tessera_context_create(&config, &context, nullptr) == TESSERA_OK ? Context(context)
                                                                          : Context();
}

// Dense self-attention of `queries` rows with N keys, in elements of one type that are all 0.
class Call {
 public:
  Call(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::uint32_t dtype)
      : memory_(std::size_t(4 * heads * (queries + keys) * 64), 0) {
    float* at = memory_.data();
    const auto tensor = [&](std::int64_t rows) {
      const tessera_tensor t = tessera_tensor_dense(at, dtype, 1, rows, heads, 64);
      at += rows * heads * 64;
      return t;
    };
    desc = tessera_attention_desc_default();
    desc.q = tensor(queries);
    desc.k = tensor(keys);
    desc.v = tensor(keys);
    desc.out = tensor(queries);
  }

  void run(benchmark::State& state, std::int32_t threads, tessera_status expected = TESSERA_OK) {
    const Context context = make_context(threads);
    tessera_error error = tessera_error_default();
    for (auto _ : state)
      if (tessera_attention(context.get(), &desc, &error) != expected) {
        state.SkipWithError(error.message);
        break;
      }
  }

  tessera_attention_desc desc;

 private:
  std::vector<float> memory_;
};

// B1 H1 N16 D64 on one thread: the figure that the project promises.
void smallest_call(benchmark::State& state) { Call(1, 16, 16, TESSERA_FLOAT32).run(state, 1); }
BENCHMARK(smallest_call);

void smallest_call_causal(benchmark::State& state) {
  Call call(1, 16, 16, TESSERA_FLOAT32);
  call.desc.right = 0;
  call.run(state, 1);
}
BENCHMARK(smallest_call_causal);

void smallest_call_bfloat16(benchmark::State& state) {
  Call(1, 16, 16, TESSERA_BFLOAT16).run(state, 1);
}
BENCHMARK(smallest_call_bfloat16);

// Checks and a plan, but no row to compute.
void no_queries(benchmark::State& state) { Call(1, 0, 16, TESSERA_FLOAT32).run(state, 1); }
BENCHMARK(no_queries);

// A call that may use two threads, and is too small for it to pay.
void smallest_call_two_threads(benchmark::State& state) {
  Call(1, 16, 16, TESSERA_FLOAT32).run(state, 2);
}
BENCHMARK(smallest_call_two_threads);

// The smallest call that both threads work on, one after another: no sleep in between.
void round_of_two_threads(benchmark::State& state) {
  Call(8, 128, 128, TESSERA_FLOAT32).run(state, 2);
}
BENCHMARK(round_of_two_threads)->UseRealTime();

void refusal(benchmark::State& state) {
  Call call(1, 16, 32, TESSERA_FLOAT32);
  call.desc.right = 0;  // a band, and no alignment to place it
  call.run(state, 1, TESSERA_INVALID_ARGUMENT);
}
BENCHMARK(refusal);

void plan_description(benchmark::State& state) {
  const Context context = make_context(1);
  const Call call(1, 16, 16, TESSERA_FLOAT32);
  char text[4096];
  for (auto _ : state)
    benchmark::DoNotOptimize(
        tessera_plan_describe(context.get(), &call.desc, text, sizeof text, nullptr, nullptr));
}
BENCHMARK(plan_description);

void context_of_one_thread(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(make_context(1));
}
BENCHMARK(context_of_one_thread);

}  // namespace
