#include "tools/tessera/definition_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "core/dtype.hpp"
#include "tools/tessera/terminal.hpp"

namespace tessera::tool {

void narrow(tessera_tensor& t, int dimension, std::int64_t first, std::int64_t count) {
  if (t.data == nullptr || t.shape[dimension] == 1) return;
  const std::int64_t bytes = core::size_of(core::DType(t.dtype));
  t.data = static_cast<std::byte*>(t.data) + first * t.stride[dimension] * bytes;
  t.shape[dimension] = count;
}

tessera_attention_desc narrowed(tessera_attention_desc desc, const Part& part) {
  const auto& [b, h, count] = part;
  const std::int64_t heads = desc.q.shape[2], kv_heads = desc.k.shape[2];
  const bool slopes_by_batch = heads == 1 || desc.alibi.shape[1] == heads;
  for (tessera_tensor* t : {&desc.q, &desc.k, &desc.v, &desc.out, &desc.lse, &desc.bias, &desc.mask,
                            &desc.kv_lengths, &desc.kv_starts, &desc.state_out, &desc.state_lse})
    narrow(*t, 0, b);
  for (tessera_tensor* t : {&desc.q, &desc.out, &desc.state_out}) narrow(*t, 2, h, count);
  for (tessera_tensor* t : {&desc.k, &desc.v}) narrow(*t, 2, h / (heads / kv_heads));
  for (tessera_tensor* t : {&desc.lse, &desc.bias, &desc.mask, &desc.state_lse})
    narrow(*t, 1, h, count);
  if (slopes_by_batch) narrow(desc.alibi, 0, b);
  narrow(desc.alibi, slopes_by_batch ? 1 : 0, h, count);
  narrow(desc.sink, 0, h, count);
  return desc;
}

bool can_be_cut(const tessera_attention_desc& desc) {
  return desc.dropout_p == 0 && desc.cu_seqlens_q.data == nullptr &&
         desc.cu_seqlens_k.data == nullptr && desc.block_table.data == nullptr &&
         desc.cache_batch_idx.data == nullptr;
}

template <class Tell> void Parts::work(Tell tell) {
  try {
    for (std::int64_t n; !stop_ && (n = next_++) < total_; tell()) {
      compute_(n);
      ++done_;
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    stop_ = true;
  }
}

void Parts::run(const std::string& label, int threads) {
  Progress progress(label);
  std::vector<std::jthread> crew;
  for (int n = 1; n < threads; ++n) crew.emplace_back([this] { work([] {}); });
  work([&] { progress.update(done_, total_); });
  crew.clear();
  if (failure_) std::rethrow_exception(failure_);
}

int threads_for_definition(int threads) {
  return std::max(1, threads > 0 ? threads : int(std::thread::hardware_concurrency()));
}

}  // namespace tessera::tool
