// Tessera: exact attention. The C++20 face of tessera.h: inline over the C interface, with no state
// and no symbols of its own.
//
//   tessera::attention(context, out, q, k, v, {.mask = tessera::causal(), .softcap = 30})
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tessera/tessera.h"

namespace tessera {

// ---- Errors ----

class Error : public std::runtime_error {
 public:
  Error(tessera_status status, const char* sentence)
      : std::runtime_error(sentence), status_(status) {}
  tessera_status status() const noexcept { return status_; }

 private:
  tessera_status status_;
};

namespace detail {

// Calls a function of the C interface with an error to fill, and throws what it reports.
template <class Function> void checked(const Function& function) {
  tessera_error error = tessera_error_default();
  const tessera_status status = function(&error);
  if (status != TESSERA_OK) throw Error(status, error.message);
}

// The text of a function that fills a buffer: a first call asks for the size.
template <class Function> std::string text_of(const Function& function) {
  char* const nowhere = nullptr;
  std::uint64_t needed = 0, none = 0;
  checked([&](tessera_error* error) { return function(nowhere, none, &needed, error); });
  std::string text(needed, '\0');
  checked([&](tessera_error* error) { return function(text.data(), needed, &needed, error); });
  text.resize(std::min<std::size_t>(text.size(), needed) - 1);  // the 0 at its end
  return text;
}

}  // namespace detail

// "major.minor.patch" of the library that runs.
inline std::string version() { return tessera_version(); }

// ---- Tensors ----

// The bits of a number of 16 bits.
enum class float16 : std::uint16_t {};
enum class bfloat16 : std::uint16_t {};

template <class T> inline constexpr std::uint32_t dtype_of = 0;
template <> inline constexpr std::uint32_t dtype_of<float> = TESSERA_FLOAT32;
template <> inline constexpr std::uint32_t dtype_of<double> = TESSERA_FLOAT64;
template <> inline constexpr std::uint32_t dtype_of<float16> = TESSERA_FLOAT16;
template <> inline constexpr std::uint32_t dtype_of<bfloat16> = TESSERA_BFLOAT16;
template <> inline constexpr std::uint32_t dtype_of<std::int32_t> = TESSERA_INT32;
template <> inline constexpr std::uint32_t dtype_of<std::int64_t> = TESSERA_INT64;
template <> inline constexpr std::uint32_t dtype_of<std::uint8_t> = TESSERA_UINT8;
template <> inline constexpr std::uint32_t dtype_of<bool> = TESSERA_BOOL;

template <class T>
concept Element = dtype_of<std::remove_const_t<T>> != 0;

using Sizes = std::initializer_list<std::int64_t>;

// A view of elements that belong to someone else. Without arguments: absent. Sizes that are not
// given are 1; strides are counted in elements, and without them the tensor is dense. Elements that
// are const make a tensor that the library refuses to write.
class Tensor {
 public:
  Tensor() : c_(tessera_tensor_default()) {}
  Tensor(const tessera_tensor& c) : c_(c) {}  // NOLINT: a view of the same thing

  template <Element T> Tensor(T* data, Sizes shape, Sizes strides = {}) : Tensor() {
    c_.data = const_cast<std::remove_const_t<T>*>(data);
    c_.dtype = dtype_of<std::remove_const_t<T>>;
    c_.flags = std::is_const_v<T> ? std::uint32_t{TESSERA_READ_ONLY} : 0;
    set_shape(shape, strides);
  }

  // Of a dense tensor, whose elements must be as many as its shape says.
  template <Element T> Tensor(std::span<T> data, Sizes shape) : Tensor(data.data(), shape) {
    std::uint64_t elements = 1;
    for (const std::int64_t size : shape) elements *= std::uint64_t(size);
    if (elements != data.size())
      throw Error(TESSERA_INVALID_ARGUMENT, wrong_count(data.size(), elements).c_str());
  }

  const tessera_tensor& c() const { return c_; }
  std::int64_t size(std::size_t dimension) const { return c_.shape[dimension]; }

 private:
  static std::string wrong_count(std::uint64_t there, std::uint64_t wanted) {
    return "a span of " + std::to_string(there) + " elements is given a shape of " +
           std::to_string(wanted) + "; pass a shape whose sizes multiply to the span's, or a " +
           "pointer with strides";
  }

  void set_shape(Sizes shape, Sizes strides) {
    if (shape.size() > 4 || (strides.size() != 0 && strides.size() != shape.size()))
      throw Error(TESSERA_INVALID_ARGUMENT,
                  "a tensor has at most 4 sizes, and as many strides or none; drop or merge "
                  "dimensions, or give each its stride");
    std::copy(shape.begin(), shape.end(), c_.shape);
    for (int d = 2; d >= 0;
         --d)  // unsigned: a size beyond reason wraps, and is refused by the call
      c_.stride[d] = std::int64_t(std::uint64_t(c_.stride[d + 1]) * std::uint64_t(c_.shape[d + 1]));
    std::copy(strides.begin(), strides.end(), c_.stride);
  }

  tessera_tensor c_;
};

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

}  // namespace tessera
