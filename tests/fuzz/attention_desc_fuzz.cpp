// Descriptions made of bytes: small real memory, hostile numbers. A call must not crash, hang, or
// write anything but its outputs, nor those when it refuses.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "support/hostile.hpp"

namespace tessera::test {
namespace {

// Scratch that a call may be lent, and a place for the struct with zeros behind it, as many as any
// accepted size reaches.
alignas(64) std::array<std::byte, 1 << 15> scratch;
alignas(64) std::array<std::byte, 1 << 17> place_of_desc;

// ---- Descriptions ----

struct Sizes {
  std::int64_t batch, queries, keys, heads, kv_heads, dim, value_dim;
};

class Maker : public TensorMaker {
 public:
  using TensorMaker::TensorMaker;

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
    d.flags = std::array<std::uint32_t, 32>{0, 1, 2}[in_.byte() % 32];
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

const tessera_attention_desc* placed(const tessera_attention_desc& d) {
  std::memcpy(place_of_desc.data(), &d, sizeof d);
  return reinterpret_cast<const tessera_attention_desc*>(place_of_desc.data());
}

}  // namespace
}  // namespace tessera::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::test;
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
