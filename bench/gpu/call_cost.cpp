// What a repeated call costs the host at the C interface, without what the driver does with it:
// the driver of the tests, which does nothing, stands for the real one. No GPU is needed.
//
//   LD_LIBRARY_PATH=build/release/tests/fake FAKE_CUDA_QUIET=1
//   build/release/bin/bench_gpu_call_cost
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "tessera/tessera.h"

namespace {

// Self-attention of 1024 rows in bfloat16, whose elements nobody reads.
tessera_attention_desc call_on_gpu() {
  static std::vector<std::uint16_t> memory(std::size_t{4} * 1024 * 16 * 128);
  tessera_attention_desc desc = tessera_attention_desc_default();
  std::uint16_t* at = memory.data();
  for (tessera_tensor* t : {&desc.q, &desc.k, &desc.v, &desc.out}) {
    *t = tessera_tensor_dense(at, TESSERA_BFLOAT16, 1, 1024, 16, 128);
    t->device_type = TESSERA_CUDA;
    at += 1024 * 16 * 128;
  }
  return desc;
}

void repeat(benchmark::State& state, const tessera_attention_desc& desc) {
  tessera_context* context = nullptr;
  tessera_error error = tessera_error_default();
  tessera_context_create(nullptr, &context, &error);
  for (auto _ : state)
    if (tessera_attention(context, &desc, &error) != TESSERA_OK) {
      state.SkipWithError(error.message);
      break;
    }
  tessera_context_destroy(context);
}

void repeated_call(benchmark::State& state) { repeat(state, call_on_gpu()); }
BENCHMARK(repeated_call);

void repeated_call_causal(benchmark::State& state) {
  tessera_attention_desc desc = call_on_gpu();
  desc.right = 0;
  repeat(state, desc);
}
BENCHMARK(repeated_call_causal);

void repeated_call_on_a_stream(benchmark::State& state) {
  tessera_attention_desc desc = call_on_gpu();
  desc.stream = &desc;
  repeat(state, desc);
}
BENCHMARK(repeated_call_on_a_stream);

}  // namespace
