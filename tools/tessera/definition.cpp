#include "tools/tessera/definition.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/tessera/terminal.hpp"

namespace tessera::tool {
namespace {

// Entry i of a dimension of a tensor; all of it where it has size 1 (or stride 0).
void narrow(tessera_tensor& t, int dimension, std::int64_t i) {
  if (t.data == nullptr || t.shape[dimension] == 1) return;
  const std::int64_t bytes = core::size_of(core::DType(t.dtype));
  t.data = static_cast<std::byte*>(t.data) + i * t.stride[dimension] * bytes;
  t.shape[dimension] = 1;
}

// The call of one (batch, head).
tessera_attention_desc one_head(tessera_attention_desc desc, std::int64_t b, std::int64_t h) {
  const std::int64_t heads = desc.q.shape[2], kv_heads = desc.k.shape[2];
  const bool slopes_by_batch = heads == 1 || desc.alibi.shape[1] == heads;
  for (tessera_tensor* t : {&desc.q, &desc.k, &desc.v, &desc.out, &desc.lse, &desc.bias, &desc.mask,
                            &desc.kv_lengths, &desc.kv_starts, &desc.state_out, &desc.state_lse})
    narrow(*t, 0, b);
  for (tessera_tensor* t : {&desc.q, &desc.out, &desc.state_out}) narrow(*t, 2, h);
  for (tessera_tensor* t : {&desc.k, &desc.v}) narrow(*t, 2, h / (heads / kv_heads));
  for (tessera_tensor* t : {&desc.lse, &desc.bias, &desc.mask, &desc.state_lse}) narrow(*t, 1, h);
  if (slopes_by_batch) narrow(desc.alibi, 0, b);
  narrow(desc.alibi, slopes_by_batch ? 1 : 0, h);
  narrow(desc.sink, 0, h);
  return desc;
}

// Dropout counts batches and heads, and the rows of a packed or paged sequence lie anywhere.
bool can_be_cut(const tessera_attention_desc& desc) {
  return desc.dropout_p == 0 && desc.cu_seqlens_q.data == nullptr &&
         desc.cu_seqlens_k.data == nullptr && desc.block_table.data == nullptr;
}

// The heads of a call, taken by whichever thread is free; or all of it at once.
class Heads {
 public:
  Heads(const Context& context, const tessera_attention_desc& desc)
      : context_(context),
        desc_(desc),
        cut_(can_be_cut(desc)),
        total_(cut_ ? desc.q.shape[0] * desc.q.shape[2] : 1) {}

  // Returns the largest score, or throws what one of the heads threw.
  double compute(int threads) {
    Progress progress("definition in double, head");
    std::vector<std::jthread> crew;
    for (int n = 1; n < threads; ++n) crew.emplace_back([this] { work([] {}); });
    work([&] { progress.update(done_, total_); });
    crew.clear();
    if (failure_) std::rethrow_exception(failure_);
    return score_max_;
  }

 private:
  template <class Tell> void work(Tell tell) {
    try {
      for (std::int64_t n; !stop_ && (n = next_++) < total_; tell()) {
        compute_head(n);
        ++done_;
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      stop_ = true;
    }
  }

  void compute_head(std::int64_t n) {
    const std::int64_t heads = desc_.q.shape[2];
    tessera_attention_desc desc = cut_ ? one_head(desc_, n / heads, n % heads) : desc_;
    double largest = 0;
    desc.score_max = &largest;
    tessera_error error = tessera_error_default();
    check(tessera_attention(context_.get(), &desc, &error), error);
    const std::lock_guard lock(mutex_);
    score_max_ = std::max(score_max_, largest);
  }

  const Context& context_;
  const tessera_attention_desc& desc_;
  const bool cut_;
  const std::int64_t total_;
  std::atomic<std::int64_t> next_{0}, done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  double score_max_ = 0;
};

Inputs in_double(const Inputs& inputs) {
  Inputs wide = inputs;
  for (Array* array : {&wide.q, &wide.k, &wide.v})
    *array = converted(*array, core::DType::kFloat64);
  return wide;
}

}  // namespace

Definition define(const Context& context, const Inputs& inputs, const AttentionOptions& options) {
  const Inputs wide = in_double(inputs);
  Definition definition{make_results(shape_of(inputs), core::DType::kFloat64)};
  tessera_attention_desc desc = describe(wide, options);
  desc.backend = TESSERA_BACKEND_REFERENCE;
  desc.out = to_c(definition.results.out.tensor);
  desc.lse = to_c(definition.results.lse.tensor);
  plan_json(context, desc);  // all checks, on the whole call
  const int threads =
      options.threads > 0 ? options.threads : int(std::thread::hardware_concurrency());
  definition.score_max = Heads(context, desc).compute(std::max(1, threads));
  return definition;
}

}  // namespace tessera::tool
