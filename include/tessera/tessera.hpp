// Tessera: exact attention. The C++20 face of tessera.h: inline over the C interface, with no state
// and no symbols of its own.
//
//   tessera::attention(context, out, q, k, v, {.mask = tessera::causal(), .softcap = 30})
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "tessera/tensor.hpp"
#include "tessera/tessera.h"

namespace tessera {

// "major.minor.patch" of the library that runs.
inline std::string version() { return tessera_version(); }

// ---- Options ----

inline constexpr std::int64_t unbounded = TESSERA_UNBOUNDED;

// Keys visible around the diagonal: `left` before it and `right` after it, both inclusive.
struct Band {
  std::int64_t left = unbounded, right = unbounded;
};

constexpr Band full() { return {}; }
constexpr Band causal() { return {.right = 0}; }
constexpr Band window(std::int64_t left, std::int64_t right = 0) { return {left, right}; }

// Which key lies on the diagonal of query 0. It must be named where a band is bounded, or ALiBi is
// given, and keys and queries differ in number.
struct Align {
  tessera_align kind = TESSERA_ALIGN_UNSET;
  std::int64_t offset = 0;
  Tensor offsets = {};
};

inline Align top_left() { return {TESSERA_ALIGN_TOP_LEFT}; }
inline Align bottom_right() { return {TESSERA_ALIGN_BOTTOM_RIGHT}; }
inline Align offset(std::int64_t key) { return {TESSERA_ALIGN_OFFSET, key}; }
inline Align offsets(const Tensor& keys) { return {TESSERA_ALIGN_OFFSETS, 0, keys}; }

struct Dropout {
  float p = 0;
  std::uint64_t seed = 0;
  std::uint32_t offset = 0;
};

// Each option as in tessera_attention_desc; what is left out has no effect.
struct Options {
  Band mask = full();
  Align align = {};
  float scale = std::numeric_limits<float>::quiet_NaN();  // 1 / sqrt(D)
  float softcap = 0;
  Tensor lse = {};           // receives the log of the sum of exp(score)
  Tensor boolean_mask = {};  // true means "attend"
  Tensor bias = {};
  Tensor alibi = {};
  Tensor sink = {};
  Tensor kv_lengths = {}, kv_starts = {}, cache_batch_idx = {};
  Tensor cu_seqlens_q = {}, cu_seqlens_k = {}, seqused_q = {}, seqused_k = {};
  Tensor block_table = {};
  Dropout dropout = {};
  Tensor state_out = {}, state_lse = {};
  tessera_backend backend = TESSERA_BACKEND_AUTO;
  std::span<std::byte> workspace = {};
  double* score_max = nullptr;  // of the reference backend
  bool batch_invariant = false;
};

namespace detail {

inline void set_lengths(tessera_attention_desc& d, const Options& o) {
  d.kv_lengths = o.kv_lengths.c();
  d.kv_starts = o.kv_starts.c();
  d.cache_batch_idx = o.cache_batch_idx.c();
  d.cu_seqlens_q = o.cu_seqlens_q.c();
  d.cu_seqlens_k = o.cu_seqlens_k.c();
  d.seqused_q = o.seqused_q.c();
  d.seqused_k = o.seqused_k.c();
  d.block_table = o.block_table.c();
}

inline void set_scores(tessera_attention_desc& d, const Options& o) {
  d.left = o.mask.left;
  d.right = o.mask.right;
  d.align = o.align.kind;
  d.offset = o.align.offset;
  d.offsets = o.align.offsets.c();
  d.scale = o.scale;
  d.softcap = o.softcap;
  d.mask = o.boolean_mask.c();
  d.bias = o.bias.c();
  d.alibi = o.alibi.c();
  d.sink = o.sink.c();
}

inline tessera_attention_desc description(const Options& o) {
  tessera_attention_desc d = tessera_attention_desc_default();
  set_scores(d, o);
  set_lengths(d, o);
  d.lse = o.lse.c();
  d.dropout_p = o.dropout.p;
  d.dropout_seed = o.dropout.seed;
  d.dropout_offset = o.dropout.offset;
  d.state_out = o.state_out.c();
  d.state_lse = o.state_lse.c();
  d.backend = o.backend;
  d.flags = o.batch_invariant ? std::uint32_t{TESSERA_BATCH_INVARIANT} : 0;
  d.workspace = o.workspace.data();
  d.workspace_bytes = o.workspace.size();
  d.score_max = o.score_max;
  return d;
}

}  // namespace detail

// ---- Contexts ----

struct ContextOptions {
  int threads = 0;                   // 0: TESSERA_THREADS, else one for each processor
  const char* cpu_target = nullptr;  // nullptr: TESSERA_CPU, else the best of this processor
  tessera_executor executor = {};    // threads of the caller
  tessera_allocator allocator = {};  // memory of the caller
};

// Threads, scratch and the choice of instructions. May be used from several threads at once.
class Context {
 public:
  explicit Context(const ContextOptions& options = {}) : c_(create(options)) {}

  tessera_context* c() const { return c_.get(); }

  // Version, targets, threads and build, as JSON.
  std::string describe() const {
    return detail::text_of([this](auto... rest) { return tessera_context_describe(c(), rest...); });
  }

 private:
  struct Destroy {
    void operator()(tessera_context* context) const { tessera_context_destroy(context); }
  };
  using Handle = std::unique_ptr<tessera_context, Destroy>;

  static Handle create(const ContextOptions& options) {
    tessera_context_config config = tessera_context_config_default();
    config.threads = options.threads;
    config.cpu_target = options.cpu_target;
    config.executor = options.executor;
    config.allocator = options.allocator;
    tessera_context* context = nullptr;
    detail::checked(
        [&](tessera_error* error) { return tessera_context_create(&config, &context, error); });
    return Handle(context);
  }

  Handle c_;
};

// ---- Attention ----

// q [B, Lq, H, D], k [B, Lk, Hk, D], v [B, Lk, Hk, Dv] -> out [B, Lq, H, Dv].
inline void attention(const Context& context, const Tensor& out, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Options& options = {}) {
  tessera_attention_desc desc = detail::description(options);
  desc.q = q.c(), desc.k = k.c(), desc.v = v.c(), desc.out = out.c();
  detail::checked(
      [&](tessera_error* error) { return tessera_attention(context.c(), &desc, error); });
}

// What attention() would run, and why, as JSON. q, k, v and out need no data (nullptr).
inline std::string plan(const Context& context, const Tensor& out, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Options& options = {}) {
  tessera_attention_desc desc = detail::description(options);
  desc.q = q.c(), desc.k = k.c(), desc.v = v.c(), desc.out = out.c();
  return detail::text_of(
      [&](auto... rest) { return tessera_plan_describe(context.c(), &desc, rest...); });
}

// ---- Gradients ----

// A call whose gradients are wanted. Its out and options.lse, both required, are read.
struct Call {
  Tensor out, q, k, v;
  Options options = {};
};

// Where the gradients go; those that are left out are not computed.
struct Gradients {
  Tensor dq = {}, dk = {}, dv = {}, d_bias = {}, d_sink = {};
  Tensor d_lse = {};        // of lse, which arrives beside d_out
  bool accumulate = false;  // add to what is there
  std::span<std::byte> workspace = {};
};

namespace detail {

// `forward` must outlive the result.
inline tessera_attention_backward_desc description(const Gradients& g, const Tensor& d_out,
                                                   const tessera_attention_desc& forward) {
  tessera_attention_backward_desc d = tessera_attention_backward_desc_default();
  d.forward = &forward;
  d.flags = g.accumulate ? std::uint32_t{TESSERA_ACCUMULATE} : 0;
  d.d_out = d_out.c(), d.d_lse = g.d_lse.c();
  d.dq = g.dq.c(), d.dk = g.dk.c(), d.dv = g.dv.c();
  d.d_bias = g.d_bias.c(), d.d_sink = g.d_sink.c();
  d.workspace = g.workspace.data();
  d.workspace_bytes = g.workspace.size();
  return d;
}

inline tessera_attention_desc description(const Call& call) {
  tessera_attention_desc d = description(call.options);
  d.q = call.q.c(), d.k = call.k.c(), d.v = call.v.c(), d.out = call.out.c();
  return d;
}

}  // namespace detail

// d_out [B, Lq, H, Dv] -> the gradients of q, k, v, bias and sink, each of the shape of its tensor.
inline void attention_backward(const Context& context, const Gradients& gradients,
                               const Tensor& d_out, const Call& call) {
  const tessera_attention_desc forward = detail::description(call);
  const auto desc = detail::description(gradients, d_out, forward);
  detail::checked(
      [&](tessera_error* error) { return tessera_attention_backward(context.c(), &desc, error); });
}

// What attention_backward() would run, and why, as JSON. Tensors that are read need no data.
inline std::string plan_backward(const Context& context, const Gradients& gradients,
                                 const Tensor& d_out, const Call& call) {
  const tessera_attention_desc forward = detail::description(call);
  const auto desc = detail::description(gradients, d_out, forward);
  return detail::text_of(
      [&](auto... rest) { return tessera_backward_plan_describe(context.c(), &desc, rest...); });
}

}  // namespace tessera
