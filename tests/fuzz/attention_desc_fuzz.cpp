// Descriptions made of bytes: small real memory, hostile numbers. A call must not crash, hang, or
// write anything but its outputs, nor those when it refuses.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace {

__extension__ using Wide = __int128;

// ---- Bytes into numbers ----

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  std::uint8_t byte() { return at_ < end_ ? *at_++ : std::uint8_t{0}; }
  std::uint64_t word() {
    std::uint64_t x = 0;
    for (int i = 0; i < 8; ++i) x = x << 8 | byte();
    return x;
  }
  template <class T, std::size_t N> T pick(const T (&choices)[N]) { return choices[byte() % N]; }

  // Mostly small, at times at an edge, at times anything.
  std::int64_t number() {
    constexpr std::int64_t kEdges[] = {INT64_MIN,        INT64_MAX,           -1,
                                       INT32_MIN,        INT32_MAX,           -2,
                                       INT64_C(1) << 32, INT64_C(1) << 48,    INT64_C(1) << 56,
                                       INT64_C(1) << 60, -(INT64_C(1) << 48), 0};
    const std::uint8_t kind = byte();
    if (kind < 200) return kind % 17;
    return kind < 240 ? pick(kEdges) : std::int64_t(word());
  }
  float real() {
    constexpr float kEdges[] = {0, 1, -1, 0.125f, INFINITY, -INFINITY, NAN, 3e38f, 1e-45f, 0.999f};
    return pick(kEdges);
  }

 private:
  const std::uint8_t *at_, *end_;
};

// ---- Memory ----

constexpr std::size_t kArena = 1 << 14;

// What a call may read, and what it may write.
struct Arenas {
  alignas(64) std::array<std::byte, kArena> inputs, outputs;

  void reset() {
    for (std::size_t i = 0; i < kArena; i += sizeof(float)) {
      const float x = float(i % 97) / 97 - 0.5f;
      std::memcpy(inputs.data() + i, &x, sizeof x);
    }
    // Small integers, for lengths and pages, and bytes of all kinds, for masks.
    for (std::size_t i = 0; i < 1024; i += sizeof(std::int32_t)) {
      const auto x = std::int32_t(i / 4 % 7);
      std::memcpy(inputs.data() + i, &x, sizeof x);
    }
    outputs.fill(std::byte{0xA5});
  }
};

// Scratch that a call may be lent, and a place for the struct with zeros behind it, as many as any
// accepted size reaches.
alignas(64) std::array<std::byte, 1 << 15> scratch;
alignas(64) std::array<std::byte, 1 << 17> place_of_desc;

bool inside(const std::array<std::byte, kArena>& arena, Wide first, Wide last) {
  const auto begin = Wide(reinterpret_cast<std::uintptr_t>(arena.data()));
  return begin <= first && last < begin + Wide(arena.size());
}

bool has_no_elements(const tessera_tensor& t) {
  for (const std::int64_t size : t.shape)
    if (size <= 0) return true;
  return false;
}

Wide element_size(const tessera_tensor& t) {
  return std::max<Wide>(1, std::min<Wide>(8, (t.dtype >> 8 & 0xFF) / 8));
}

// Whether all that the tensor says it has lies in one arena: the caller's part of the bargain.
bool is_honest(const Arenas& arenas, const tessera_tensor& t) {
  if (t.data == nullptr || has_no_elements(t)) return true;
  const Wide data = Wide(reinterpret_cast<std::uintptr_t>(t.data));
  Wide first = data, last = data + element_size(t) - 1;
  for (int d = 0; d < 4; ++d) {
    const Wide reach = Wide(t.shape[d] - 1) * t.stride[d];
    if (reach > Wide(kArena) || reach < -Wide(kArena)) return false;
    (reach < 0 ? first : last) += reach * element_size(t);
  }
  return inside(arenas.inputs, first, last) || inside(arenas.outputs, first, last);
}

// ---- Descriptions ----

struct Sizes {
  std::int64_t batch, queries, keys, heads, kv_heads, dim, value_dim;
};

constexpr std::uint32_t kTypes[] = {TESSERA_FLOAT32, TESSERA_FLOAT16, TESSERA_BFLOAT16,
                                    TESSERA_FLOAT64};
constexpr std::uint32_t kLengthTypes[] = {TESSERA_INT32, TESSERA_INT64};

// Spoils one field of a tensor.
void spoil(Input& in, tessera_tensor& t) {
  const std::uint8_t field = in.byte() % 14;
  if (field < 4) t.shape[field] = in.number();
  if (field >= 4 && field < 8) t.stride[field - 4] = in.number();
  if (field == 8) t.dtype = std::uint32_t(in.number());
  if (field == 9) t.dtype = in.pick(kTypes);
  if (field == 10) t.data = static_cast<std::byte*>(t.data) + in.number() % 64;
  if (field == 11) t.flags = in.byte() % 4;
  if (field == 12) t.device_type = in.byte() % 3;
  if (field == 13) t.reserved[0] = in.byte() % 2;
}

class Maker {
 public:
  Maker(Input& in, Arenas& arenas) : in_(in), arenas_(arenas) {}

  // A dense tensor somewhere in the arena, or spoiled.
  tessera_tensor tensor(std::array<std::byte, kArena>& arena, std::uint32_t dtype,
                        std::array<std::int64_t, 4> s) {
    const std::size_t place = in_.byte() * std::size_t{64} % (kArena / 2);
    tessera_tensor t = tessera_tensor_dense(arena.data() + place, dtype, s[0], s[1], s[2], s[3]);
    for (int i = in_.byte() % 8; i > 5; --i) spoil(in_, t);
    return t;
  }
  tessera_tensor input(std::uint32_t dtype, std::array<std::int64_t, 4> s) {
    return tensor(arenas_.inputs, dtype, s);
  }
  // Options are absent more often than not.
  void maybe(tessera_tensor& t, std::uint32_t dtype, std::array<std::int64_t, 4> s) {
    if (in_.byte() % 8 == 7) t = input(dtype, s);
  }

  void principal(tessera_attention_desc& d, const Sizes& s) {
    const std::uint32_t dtype = in_.pick(kTypes);
    d.q = input(dtype, {s.batch, s.queries, s.heads, s.dim});
    d.k = input(dtype, {s.batch, s.keys, s.kv_heads, s.dim});
    d.v = input(dtype, {s.batch, s.keys, s.kv_heads, s.value_dim});
    d.out = tensor(arenas_.outputs, dtype, {s.batch, s.queries, s.heads, s.value_dim});
    d.lse = tensor(arenas_.outputs, TESSERA_FLOAT32, {s.batch, s.heads, s.queries, 1});
    d.lse.data = arenas_.outputs.data() + kArena - 4096;
    if (in_.byte() % 4 == 0) d.lse = tessera_tensor_default();
  }
  void options(tessera_attention_desc& d, const Sizes& s) {
    maybe(d.offsets, in_.pick(kLengthTypes), {s.batch, 1, 1, 1});
    maybe(d.mask, TESSERA_BOOL, {in_.byte() % 2 ? 1 : s.batch, 1, s.queries, s.keys});
    maybe(d.bias, in_.pick(kTypes), {1, s.heads, in_.byte() % 2 ? 1 : s.queries, s.keys});
    maybe(d.alibi, TESSERA_FLOAT32, {s.heads, 1, 1, 1});
    maybe(d.sink, TESSERA_FLOAT32, {s.heads, 1, 1, 1});
    maybe(d.kv_lengths, in_.pick(kLengthTypes), {s.batch, 1, 1, 1});
    maybe(d.kv_starts, in_.pick(kLengthTypes), {s.batch, 1, 1, 1});
    maybe(d.cache_batch_idx, TESSERA_INT32, {s.batch, 1, 1, 1});
    maybe(d.cu_seqlens_q, in_.pick(kLengthTypes), {in_.byte() % 4, 1, 1, 1});
    maybe(d.cu_seqlens_k, in_.pick(kLengthTypes), {s.batch + 1, 1, 1, 1});
    maybe(d.seqused_q, TESSERA_INT32, {s.batch, 1, 1, 1});
    maybe(d.seqused_k, TESSERA_INT32, {s.batch, 1, 1, 1});
    maybe(d.block_table, TESSERA_INT32, {s.batch, in_.byte() % 4, 1, 1});
    maybe(d.state_out, TESSERA_FLOAT32, {s.batch, s.queries, s.heads, s.value_dim});
    maybe(d.state_lse, TESSERA_FLOAT32, {s.batch, s.heads, s.queries, 1});
  }
  void numbers(tessera_attention_desc& d) {
    d.backend = in_.byte() % 5;
    d.align = in_.byte() % 6;
    if (in_.byte() % 4 == 0) d.scale = in_.real();
    if (in_.byte() % 4 == 0) d.softcap = in_.real();
    if (in_.byte() % 2 == 0) d.left = in_.number();
    if (in_.byte() % 2 == 0) d.right = in_.number();
    if (d.align == TESSERA_ALIGN_OFFSET || in_.byte() % 16 == 15) d.offset = in_.number();
    if (in_.byte() % 8 == 7) d.dropout_p = in_.real();
    if (in_.byte() % 32 == 31) d.flags = 1;
    if (in_.byte() % 32 == 31) d.mask_expr = "q >= kv";
    if (in_.byte() % 8 == 7) d.workspace = scratch.data() + in_.byte() % 2 * 32;
    if (d.workspace != nullptr) d.workspace_bytes = scratch.size() - 64;
    if (in_.byte() % 32 == 31) d.size = std::uint32_t(in_.number());
  }
  // Out in float32, as a state wants it; the last bytes, so that older seeds say what they said.
  void state(tessera_attention_desc& d, const Sizes& s) {
    if (in_.byte() % 4 == 3)
      d.out = tensor(arenas_.outputs, TESSERA_FLOAT32, {s.batch, s.queries, s.heads, s.value_dim});
  }

 private:
  Input& in_;
  Arenas& arenas_;
};

Sizes any_sizes(Input& in) {
  const std::int64_t kv_heads = in.byte() % 3;
  return {in.byte() % 3, in.byte() % 7,     in.byte() % 9,    kv_heads * (1 + in.byte() % 2),
          kv_heads,      1 + in.byte() % 8, 1 + in.byte() % 5};
}

// ---- What the harness owes the library ----

constexpr tessera_tensor tessera_attention_desc::* kTensors[] = {
    &tessera_attention_desc::q,        &tessera_attention_desc::k,
    &tessera_attention_desc::v,        &tessera_attention_desc::out,
    &tessera_attention_desc::lse,      &tessera_attention_desc::mask,
    &tessera_attention_desc::bias,     &tessera_attention_desc::alibi,
    &tessera_attention_desc::sink,     &tessera_attention_desc::state_out,
    &tessera_attention_desc::state_lse};
constexpr tessera_tensor tessera_attention_desc::* kReadByChecks[] = {
    &tessera_attention_desc::offsets,      &tessera_attention_desc::kv_lengths,
    &tessera_attention_desc::kv_starts,    &tessera_attention_desc::cache_batch_idx,
    &tessera_attention_desc::cu_seqlens_q, &tessera_attention_desc::cu_seqlens_k,
    &tessera_attention_desc::seqused_q,    &tessera_attention_desc::seqused_k,
    &tessera_attention_desc::block_table};

// The checks read these, so they must be honest, and of a length that can be read in time.
void withhold_dishonest_lengths(const Arenas& arenas, tessera_attention_desc& d) {
  for (const auto member : kReadByChecks) {
    tessera_tensor& t = d.*member;
    if (!is_honest(arenas, t) || t.shape[0] > 10'000) t = tessera_tensor_default();
  }
}

// Whether the call may really be run: its memory is there, and its work is small.
bool may_run(const Arenas& arenas, const tessera_attention_desc& d) {
  for (const auto member : kTensors)
    if (!is_honest(arenas, d.*member)) return false;
  Wide work = 1;
  for (const std::int64_t size : {d.q.shape[0], d.q.shape[1], d.q.shape[2], d.k.shape[1],
                                  d.q.shape[3], d.v.shape[3], d.block_table.shape[1]})
    work *= std::max<std::int64_t>(1, std::min<std::int64_t>(size, 1'000'000));
  return work < 5'000'000 && d.cu_seqlens_q.shape[0] < 1000;
}

// ---- What the library owes ----

[[noreturn]] void broken(const char* promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// Marks the bytes of the elements of an output.
void mark(const Arenas& arenas, const tessera_tensor& t, std::vector<bool>& may_change) {
  if (t.data == nullptr || has_no_elements(t)) return;
  const auto* data = static_cast<const std::byte*>(t.data);
  const auto size = std::ptrdiff_t(element_size(t));
  for (std::int64_t a = 0; a < t.shape[0]; ++a)
    for (std::int64_t b = 0; b < t.shape[1]; ++b)
      for (std::int64_t c = 0; c < t.shape[2]; ++c)
        for (std::int64_t e = 0; e < t.shape[3]; ++e) {
          const std::byte* at =
              data + (a * t.stride[0] + b * t.stride[1] + c * t.stride[2] + e * t.stride[3]) * size;
          for (std::ptrdiff_t i = 0; i < size; ++i)
            may_change[std::size_t(at + i - arenas.outputs.data())] = true;
        }
}

void check_writes(const Arenas& before, const Arenas& after, const tessera_attention_desc& d,
                  tessera_status status) {
  if (before.inputs != after.inputs) broken("inputs are never written");
  if (before.outputs == after.outputs) return;
  if (status != TESSERA_OK) broken("nothing is written where a call fails");
  std::vector<bool> may_change(kArena);
  mark(after, d.out, may_change);
  mark(after, d.lse, may_change);
  for (std::size_t i = 0; i < kArena; ++i)
    if (!may_change[i] && before.outputs[i] != after.outputs[i])
      broken("nothing beside the outputs is written");
}

void check_error(const tessera_error& error, tessera_status status) {
  if (error.status != status) broken("error.status is the status");
  const std::size_t length = strnlen(error.message, sizeof error.message);
  if (length >= sizeof error.message - 1) broken("a sentence fits its message");
  if ((length == 0) != (status == TESSERA_OK)) broken("a refusal has a sentence");
  if (status == TESSERA_INTERNAL || status == TESSERA_OUT_OF_MEMORY)
    broken("small calls do not run out of memory or into a defect");
}

tessera_context* context() {
  static const std::unique_ptr<tessera_context, decltype(&tessera_context_destroy)> only = [] {
    tessera_context_config config = tessera_context_config_default();
    config.threads = 2;
    tessera_context* made = nullptr;
    if (tessera_context_create(&config, &made, nullptr) != TESSERA_OK) broken("a context is made");
    return std::unique_ptr<tessera_context, decltype(&tessera_context_destroy)>(
        made, &tessera_context_destroy);
  }();
  return only.get();
}

const tessera_attention_desc* placed(const tessera_attention_desc& d) {
  std::memcpy(place_of_desc.data(), &d, sizeof d);
  return reinterpret_cast<const tessera_attention_desc*>(place_of_desc.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto before = std::make_unique<Arenas>(), after = std::make_unique<Arenas>();
  after->reset();
  Input in(data, size);
  Maker maker(in, *after);
  tessera_attention_desc d = tessera_attention_desc_default();
  const Sizes sizes = any_sizes(in);
  maker.principal(d, sizes);
  maker.options(d, sizes);
  maker.numbers(d);
  maker.state(d, sizes);
  withhold_dishonest_lengths(*after, d);
  const auto* desc = placed(d);
  *before = *after;

  tessera_error error = tessera_error_default();
  char text[64];
  tessera_status status =
      tessera_plan_describe(context(), desc, text, sizeof text, nullptr, &error);
  check_error(error, status);
  if (before->outputs != after->outputs) broken("a description writes no output");
  if (!may_run(*after, d)) return 0;
  status = tessera_attention(context(), desc, &error);
  check_error(error, status);
  check_writes(*before, *after, d, status);
  return 0;
}
