// Decoding of 32 sequences over one prefix of 8192 keys: the plain call, whose sequences all read
// the same keys (stride 0), beside the prefix as one sequence of 32 queries, the few keys of each,
// and their merge.
//
//   bench_shared_prefix --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/tessera.h"

namespace {

constexpr std::int64_t kBatch = 32, kPrefix = 8192, kOwn = 16, kHeads = 32, kDim = 128;

struct Deleter {
  void operator()(tessera_context* context) const { tessera_context_destroy(context); }
};
using Context = std::unique_ptr<tessera_context, Deleter>;

Context make_context() {
  tessera_context_config config = tessera_context_config_default();
  config.threads = 2;
  tessera_context* context = nullptr;
  tessera_context_create(&config, &context, nullptr);
  return Context(context);
}

// Rows of one kind for every sequence, and what the calls write.
struct Memory {
  explicit Memory(std::int64_t kv_heads)
      : kv_row(kv_heads * kDim),
        q(kBatch * kHeads * kDim, 0.125f),
        prefix(2 * kPrefix * kv_row, 0.25f),
        own(2 * kBatch * kOwn * kv_row, 0.5f),
        out(3 * q.size()),
        lse(2 * kBatch * kHeads) {}

  // Keys or values (`which` 0 or 1) of the prefix, [batch, kPrefix, Hk, D] or heads first.
  tessera_tensor of_prefix(int which, std::int64_t batch) {
    tessera_tensor t = tessera_tensor_dense(prefix.data() + which * kPrefix * kv_row,
                                            TESSERA_FLOAT32, batch, kPrefix, kv_row / kDim, kDim);
    t.stride[0] = 0, t.stride[1] = kDim, t.stride[2] = kPrefix * kDim;
    return t;
  }
  tessera_tensor of_own(int which) {
    return tessera_tensor_dense(own.data() + which * kBatch * kOwn * kv_row, TESSERA_FLOAT32,
                                kBatch, kOwn, kv_row / kDim, kDim);
  }
  tessera_tensor rows(float* data, std::int64_t batch) {
    return tessera_tensor_dense(data, TESSERA_FLOAT32, batch, kBatch / batch, kHeads, kDim);
  }
  tessera_tensor logs(float* data, std::int64_t batch) {
    return tessera_tensor_dense(data, TESSERA_FLOAT32, batch, kHeads, kBatch / batch, 1);
  }

  std::int64_t kv_row;
  std::vector<float> q, prefix, own, out, lse;
};

// The queries of all sequences to the prefix: as a batch, or as queries of one sequence.
tessera_attention_desc prefix_call(Memory& m, std::int64_t batch) {
  tessera_attention_desc d = tessera_attention_desc_default();
  d.q = m.rows(m.q.data(), batch);
  d.k = m.of_prefix(0, batch), d.v = m.of_prefix(1, batch);
  d.out = m.rows(m.out.data(), batch);
  d.lse = m.logs(m.lse.data(), batch);
  return d;
}

tessera_attention_desc own_call(Memory& m) {
  tessera_attention_desc d = tessera_attention_desc_default();
  d.q = m.rows(m.q.data(), kBatch);
  d.k = m.of_own(0), d.v = m.of_own(1);
  d.out = m.rows(m.out.data() + m.q.size(), kBatch);
  d.lse = m.logs(m.lse.data() + kBatch * kHeads, kBatch);
  return d;
}

void plain(benchmark::State& state) {
  const Context context = make_context();
  Memory m(state.range(0));
  const tessera_attention_desc call = prefix_call(m, kBatch);
  tessera_error error = tessera_error_default();
  for (auto _ : state)
    if (tessera_attention(context.get(), &call, &error)) state.SkipWithError(error.message);
}

void cascade(benchmark::State& state) {
  const Context context = make_context();
  Memory m(state.range(0));
  const tessera_attention_desc prefix = prefix_call(m, 1), own = own_call(m);
  tessera_state states[2] = {{own.out, own.lse}, {own.out, own.lse}};
  states[0].out.data = prefix.out.data, states[0].lse.data = prefix.lse.data;
  states[0].lse.stride[0] = 1, states[0].lse.stride[1] = kBatch;
  tessera_merge_desc merge = tessera_merge_desc_default();
  merge.states = states, merge.count = 2;
  merge.out = m.rows(m.out.data() + 2 * m.q.size(), kBatch);
  tessera_error error = tessera_error_default();
  for (auto _ : state)
    if (tessera_attention(context.get(), &prefix, &error) ||
        tessera_attention(context.get(), &own, &error) ||
        tessera_merge(context.get(), &merge, &error))
      state.SkipWithError(error.message);
}

// The argument is the number of key heads.
BENCHMARK(plain)->Arg(32)->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cascade)->Arg(32)->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
