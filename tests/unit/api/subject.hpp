// A small call of the C interface that works, to be spoiled in one place at a time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/fields.hpp"
#include "tessera/tessera.h"

namespace tessera::test {

using Sizes = std::initializer_list<std::int64_t>;

// A dense tensor of at most four sizes.
inline tessera_tensor dense(void* data, std::uint32_t dtype, Sizes shape) {
  std::int64_t s[4] = {1, 1, 1, 1};
  std::size_t d = 0;
  for (const std::int64_t size : shape) s[d++] = size;
  return tessera_tensor_dense(data, dtype, s[0], s[1], s[2], s[3]);
}

// B 2, Lq 3, Lk 3, H 4, Hk 2, D 8, Dv 5, float32, dense. The outputs and the gradients of q, k and
// v hold a pattern of bytes that no refusal may change.
class Subject {
 public:
  static constexpr std::int64_t kBatch = 2, kQueries = 3, kKeys = 3, kHeads = 4, kKvHeads = 2,
                                kDim = 8, kValueDim = 5;
  static constexpr unsigned char kPoison = 0xA5;

  Subject()
      : desc(tessera_attention_desc_default()),
        backward(tessera_attention_backward_desc_default()),
        config(tessera_context_config_default()) {
    config.threads = 1;
    desc.q = hold(std::vector<float>(2 * 3 * 4 * 8, 0.25f), {kBatch, kQueries, kHeads, kDim});
    desc.k = hold(std::vector<float>(2 * 3 * 2 * 8, 0.5f), {kBatch, kKeys, kKvHeads, kDim});
    desc.v = hold(std::vector<float>(2 * 3 * 2 * 5, 2.f), {kBatch, kKeys, kKvHeads, kValueDim});
    desc.out = poisoned({kBatch, kQueries, kHeads, kValueDim});
    desc.lse = poisoned({kBatch, kHeads, kQueries});
    backward.d_out = hold(std::vector<float>(2 * 3 * 4 * 5, 1.f), {2, 3, 4, 5});
    backward.dq = poisoned({kBatch, kQueries, kHeads, kDim});
    backward.dk = poisoned({kBatch, kKeys, kKvHeads, kDim});
    backward.dv = poisoned({kBatch, kKeys, kKvHeads, kValueDim});
  }

  // An output of float32; what it holds is watched.
  tessera_tensor poisoned(Sizes shape) {
    std::size_t elements = 1;
    for (const std::int64_t size : shape) elements *= std::size_t(size);
    const tessera_tensor t = hold(std::vector<float>(elements), shape);
    std::memset(t.data, kPoison, elements * sizeof(float));
    outputs_.push_back({static_cast<unsigned char*>(t.data), elements * sizeof(float)});
    return t;
  }

  // Keeps elements as long as the subject lives, aligned as new aligns them.
  template <class T> void* keep(const std::vector<T>& elements) {
    auto& bytes = memory_.emplace_back(std::max<std::size_t>(1, elements.size() * sizeof(T)));
    if (!elements.empty()) std::memcpy(bytes.data(), elements.data(), elements.size() * sizeof(T));
    return bytes.data();
  }
  tessera_tensor hold(const std::vector<float>& x, Sizes shape) {
    return dense(keep(x), TESSERA_FLOAT32, shape);
  }
  tessera_tensor hold(const std::vector<std::int32_t>& x, Sizes shape) {
    return dense(keep(x), TESSERA_INT32, shape);
  }
  tessera_tensor hold(const std::vector<std::int64_t>& x, Sizes shape) {
    return dense(keep(x), TESSERA_INT64, shape);
  }
  tessera_tensor hold(const std::vector<std::uint8_t>& x, Sizes shape) {
    return dense(keep(x), TESSERA_UINT8, shape);
  }
  // 64 KiB on a boundary of 64 bytes.
  std::byte* workspace() {
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
    return workspace_->bytes;
  }

  // Two packed sequences of 1 and 2 rows in q, out and lse, and their gradients.
  void pack_queries() {
    reshape(backward.d_out, {1, 3, 4, 5});
    reshape(backward.dq, {1, 3, 4, 8});
    reshape(desc.q, {1, 3, 4, 8});
    reshape(desc.out, {1, 3, 4, 5});
    reshape(desc.lse, {1, 4, 3});
    desc.cu_seqlens_q = hold(std::vector<std::int32_t>{0, 1, 3}, {3});
  }
  // Two packed sequences of 1 and 2 keys.
  void pack_keys() {
    reshape(backward.dk, {1, 3, 2, 8});
    reshape(backward.dv, {1, 3, 2, 5});
    reshape(desc.k, {1, 3, 2, 8});
    reshape(desc.v, {1, 3, 2, 5});
    desc.cu_seqlens_k = hold(std::vector<std::int64_t>{0, 1, 3}, {3});
  }
  // k and v as 3 pages of 2 keys; sequence 0 has 3 keys in the pages 2 and 0, sequence 1 has 2.
  void page() {
    reshape(backward.dk, {3, 2, 2, 8});
    reshape(backward.dv, {3, 2, 2, 5});
    reshape(desc.k, {3, 2, 2, 8});
    reshape(desc.v, {3, 2, 2, 5});
    desc.block_table = hold(std::vector<std::int32_t>{2, 0, 1, -7}, {2, 2});
    desc.kv_lengths = hold(std::vector<std::int32_t>{3, 2}, {2});
  }

  // All tensors of the call, as if they lay on a GPU.
  void put_on_gpu() {
    for (const api::Field& field : api::fields()) {
      tessera_tensor& t = desc.*field.given;
      t.device_type = TESSERA_CUDA;
    }
  }

  bool outputs_untouched() const {
    return std::all_of(outputs_.begin(), outputs_.end(), [](const auto& bytes) {
      return std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == kPoison; });
    });
  }

  tessera_attention_desc desc;
  tessera_attention_backward_desc backward;  // of desc, which differentiate() points it at
  tessera_context_config config;

 private:
  struct Workspace {
    alignas(64) std::byte bytes[65536];
  };

  static void reshape(tessera_tensor& t, Sizes shape) { t = dense(t.data, t.dtype, shape); }

  std::deque<std::vector<std::byte>> memory_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<std::span<unsigned char>> outputs_;
};

// A context for the time of one call.
class TemporaryContext {
 public:
  explicit TemporaryContext(const tessera_context_config& config, tessera_error* error = nullptr)
      : status(tessera_context_create(&config, &context, error)) {}
  ~TemporaryContext() { tessera_context_destroy(context); }
  TemporaryContext(const TemporaryContext&) = delete;
  TemporaryContext& operator=(const TemporaryContext&) = delete;

  tessera_context* context = nullptr;
  tessera_status status;
};

// What a call answered.
struct Answer {
  tessera_status status = TESSERA_OK;
  std::string message;
};

inline Answer attend(const Subject& s) {
  tessera_error error = tessera_error_default();
  const TemporaryContext temporary(s.config, &error);
  tessera_status status = temporary.status;
  if (status == TESSERA_OK) status = tessera_attention(temporary.context, &s.desc, &error);
  return {status, error.message};
}

inline Answer differentiate(const Subject& s) {
  tessera_error error = tessera_error_default();
  const TemporaryContext temporary(s.config, &error);
  tessera_attention_backward_desc desc = s.backward;
  desc.forward = &s.desc;
  tessera_status status = temporary.status;
  if (status == TESSERA_OK) status = tessera_attention_backward(temporary.context, &desc, &error);
  return {status, error.message};
}

}  // namespace tessera::test
