// Descriptions of gradients, merges, rotations and appends made of bytes: small real memory,
// hostile numbers. A call must not crash, hang, or write anything but its outputs, nor those when
// it refuses.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <vector>

#include "support/hostile.hpp"

namespace tessera::test {
namespace {

// ---- What is checked of every call ----

struct Worlds {
  Arenas before, now;
};

using Tensors = std::initializer_list<const tessera_tensor*>;

// Whether the call may really be run: its memory is there, and its work is small.
bool may_run(const Arenas& arenas, Tensors all) {
  for (const tessera_tensor* t : all) {
    Wide elements = 1;
    for (const std::int64_t size : t->shape)
      elements *= std::max<std::int64_t>(1, std::min<std::int64_t>(size, 1'000'000));
    if (!is_honest(arenas, *t) || elements > 20'000) return false;
  }
  return true;
}

bool lies_in_inputs(const Arenas& arenas, const tessera_tensor& t) {
  const auto at = Wide(reinterpret_cast<std::uintptr_t>(t.data));
  return inside(arenas.inputs, at, at);
}

// Runs it; `written` are its outputs. One that was moved among the inputs is the caller's own wish.
template <class Run> void check(Worlds& worlds, Tensors written, const Run& run) {
  for (const tessera_tensor* t : written)
    if (lies_in_inputs(worlds.now, *t)) return;
  worlds.before = worlds.now;
  tessera_error error = tessera_error_default();
  const tessera_status status = run(&error);
  check_error(error, status);
  const Arenas &before = worlds.before, &after = worlds.now;
  if (before.inputs != after.inputs) broken("inputs are never written");
  if (before.outputs == after.outputs) return;
  if (status != TESSERA_OK) broken("nothing is written where a call fails");
  std::vector<bool> may_change(kArena);
  for (const tessera_tensor* t : written) mark(after, *t, may_change);
  for (std::size_t i = 0; i < kArena; ++i)
    if (!may_change[i] && before.outputs[i] != after.outputs[i])
      broken("nothing beside the outputs is written");
}

// ---- The four calls ----

class Calls : public TensorMaker {
 public:
  Calls(Input& in, Worlds& worlds) : TensorMaker(in, worlds.now), worlds_(worlds) {}

  void backward() {
    const std::int64_t b = small(3), i = small(6), j = small(7), h = small(3), d = 1 + small(7);
    const std::int64_t dv = 1 + small(5);
    const std::uint32_t dtype = in_.pick(kTypes), wide = in_.pick(kTypes);
    tessera_attention_desc f = tessera_attention_desc_default();
    f.q = input(dtype, {b, i, 2 * h, d}), f.k = input(dtype, {b, j, h, d});
    f.v = input(dtype, {b, j, h, dv}), f.out = input(dtype, {b, i, 2 * h, dv});
    f.lse = input(TESSERA_FLOAT32, {b, 2 * h, i, 1});
    maybe(f.mask, TESSERA_BOOL, {b, 1, i, j});
    maybe(f.bias, in_.pick(kTypes), {1, 2 * h, in_.byte() % 2 ? 1 : i, j});
    maybe(f.sink, TESSERA_FLOAT32, {2 * h, 1, 1, 1});
    maybe(f.kv_lengths, TESSERA_INT32, {b, 1, 1, 1});
    maybe(f.cu_seqlens_q, TESSERA_INT32, {b + 1, 1, 1, 1});
    maybe(f.cu_seqlens_k, TESSERA_INT32, {b + 1, 1, 1, 1});
    f.backend = in_.byte() % 5, f.align = in_.byte() % 4;
    if (in_.byte() % 2 == 0) f.right = in_.number();
    if (in_.byte() % 4 == 0) f.softcap = in_.real();
    if (in_.byte() % 8 == 0) f.dropout_p = in_.real();
    tessera_attention_backward_desc g = tessera_attention_backward_desc_default();
    g.forward = in_.byte() % 32 == 31 ? nullptr : &f;
    g.d_out = input(in_.byte() % 2 ? wide : dtype, {b, i, 2 * h, dv});
    maybe(g.d_lse, TESSERA_FLOAT32, {b, 2 * h, i, 1});
    likely(g.dq, dtype, {b, i, 2 * h, d});
    likely(g.dk, dtype, {b, j, h, d});
    likely(g.dv, wide, {b, j, h, dv});
    if (f.bias.data != nullptr) likely(g.d_bias, wide, f.bias);
    if (f.sink.data != nullptr) likely(g.d_sink, TESSERA_FLOAT32, f.sink);
    if (in_.byte() % 8 == 0) g.flags = in_.byte() % 4;
    if (!may_run(arenas_, {&f.q, &f.k, &f.v, &f.out, &f.lse, &f.mask, &f.bias, &f.sink,
                           &f.kv_lengths, &f.cu_seqlens_q, &f.cu_seqlens_k, &g.d_out, &g.d_lse,
                           &g.dq, &g.dk, &g.dv, &g.d_bias, &g.d_sink}))
      return;
    check(worlds_, {&g.dq, &g.dk, &g.dv, &g.d_bias, &g.d_sink},
          [&](auto* error) { return tessera_attention_backward(context(), &g, error); });
  }

  void merge() {
    const std::array<std::int64_t, 4> shape{small(3), small(5), small(3), 1 + small(8)};
    const std::array<std::int64_t, 4> rows{shape[0], shape[2], shape[1], 1};
    std::array<tessera_state, 3> states{};
    for (tessera_state& s : states)
      s = {input(TESSERA_FLOAT32, shape), input(TESSERA_FLOAT32, rows)};
    tessera_merge_desc d = tessera_merge_desc_default();
    d.states = in_.byte() % 32 == 31 ? nullptr : states.data();
    d.count = in_.byte() % 4;
    d.out = tensor(arenas_.outputs, in_.pick(kTypes), shape);
    likely(d.lse, TESSERA_FLOAT32, rows);
    if (in_.byte() % 8 == 0) states[0].out = d.out;
    if (in_.byte() % 32 == 31) d.flags = 1;
    if (!may_run(arenas_, {&d.out, &d.lse, &states[0].out, &states[0].lse, &states[1].out,
                           &states[1].lse, &states[2].out, &states[2].lse}))
      return;
    check(worlds_, {&d.out, &d.lse},
          [&](auto* error) { return tessera_merge(context(), &d, error); });
  }

  void rotate() {
    const std::int64_t b = small(3), rows = small(5), dim = 1 + small(8), positions = small(9);
    const std::uint32_t dtype = in_.pick(kTypes);
    tessera_rotate_desc d = tessera_rotate_desc_default();
    d.layout = in_.byte() % 3;
    d.out = tensor(arenas_.outputs, dtype, {b, rows, 2, dim});
    d.x = in_.byte() % 8 == 0 ? d.out : input(dtype, {b, rows, 2, dim});
    tables(d.cos, d.sin, positions, dim);
    maybe(d.offsets, TESSERA_INT32, {b, 1, 1, 1});
    maybe(d.positions, TESSERA_INT64, {b, rows, 1, 1});
    if (!may_run(arenas_, {&d.x, &d.out, &d.cos, &d.sin, &d.offsets, &d.positions})) return;
    check(worlds_, {&d.out}, [&](auto* error) { return tessera_rotate(context(), &d, error); });
  }

  void append() {
    const std::int64_t b = small(3), fresh = small(4), size = small(6), dim = 1 + small(6);
    const std::uint32_t dtype = in_.pick(kTypes);
    tessera_append_desc d = tessera_append_desc_default();
    d.layout = in_.byte() % 3;
    d.k = input(dtype, {b, fresh, 2, dim}), d.v = input(dtype, {b, fresh, 2, 3});
    d.k_cache = tensor(arenas_.outputs, dtype, {b + small(3), size, 2, dim});
    d.v_cache = tensor(arenas_.outputs, dtype, {d.k_cache.shape[0], size, 2, 3});
    d.kv_lengths = input(TESSERA_INT32, {b, 1, 1, 1});
    maybe(d.cache_batch_idx, TESSERA_INT32, {b, 1, 1, 1});
    maybe(d.block_table, TESSERA_INT32, {b, small(4), 1, 1});
    if (in_.byte() % 2) tables(d.cos, d.sin, small(9), dim);
    if (!may_run(arenas_, {&d.k, &d.v, &d.k_cache, &d.v_cache, &d.kv_lengths, &d.cache_batch_idx,
                           &d.block_table, &d.cos, &d.sin}))
      return;
    check(worlds_, {&d.k_cache, &d.v_cache},
          [&](auto* error) { return tessera_append(context(), &d, error); });
  }

 private:
  std::int64_t small(std::int64_t n) { return in_.byte() % n; }

  // Outputs are wanted more often than not.
  void likely(tessera_tensor& t, std::uint32_t dtype, std::array<std::int64_t, 4> shape) {
    if (in_.byte() % 4 != 0) t = tensor(arenas_.outputs, dtype, shape);
  }
  void likely(tessera_tensor& t, std::uint32_t dtype, const tessera_tensor& of) {
    likely(t, dtype, {of.shape[0], of.shape[1], of.shape[2], of.shape[3]});
  }
  void tables(tessera_tensor& cos, tessera_tensor& sin, std::int64_t positions, std::int64_t dim) {
    const std::uint32_t dtype = in_.pick(kTypes);
    cos = input(dtype, {positions, dim / 2, 1, 1});
    sin = input(dtype, {positions, dim / 2, 1, 1});
  }

  Worlds& worlds_;
};

}  // namespace
}  // namespace tessera::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::test;
  static const auto worlds = std::make_unique<Worlds>();
  worlds->now.reset();
  Input in(data, size);
  Calls calls(in, *worlds);
  switch (in.byte() % 4) {
    case 0: calls.backward(); break;
    case 1: calls.merge(); break;
    case 2: calls.rotate(); break;
    default: calls.append();
  }
  return 0;
}
