// Tessera: states, rotary positions and caches. The C++20 face of the last section of tessera.h.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tessera.hpp"

namespace tessera {

// What a row knows of some keys.
struct State {
  Tensor out = {};  // [B, Lq, H, Dv] float32
  Tensor lse = {};  // [B, H, Lq] float32; -inf or +inf: no key
};

// The state of all keys: to.out float32, float16 or bfloat16; to.lse may be absent. Either may be
// the tensor of one of the states. Throws Error.
inline void merge(const Context& context, const State& to, std::span<const State> states) {
  std::vector<tessera_state> parts;
  for (const State& state : states) parts.push_back({state.out.c(), state.lse.c()});
  tessera_merge_desc desc = tessera_merge_desc_default();
  desc.states = parts.data();
  desc.count = parts.size();
  desc.out = to.out.c(), desc.lse = to.lse.c();
  detail::checked([&](tessera_error* error) { return tessera_merge(context.c(), &desc, error); });
}

// Tables [positions, R / 2] of the angles, and which elements turn together.
struct Rotary {
  Tensor cos = {}, sin = {};
  tessera_rotary_layout layout = TESSERA_ROTARY_HALVES;
};

// Row i of sequence b is at positions[b, i], or offsets[b] + i, or i.
struct Positions {
  Tensor offsets = {};    // [B]
  Tensor positions = {};  // [B, L]
};

// x [B, L, H, D] turned to its positions; out may be x itself. Throws Error.
inline void rotate(const Context& context, const Tensor& out, const Tensor& x, const Rotary& rotary,
                   const Positions& at = {}) {
  tessera_rotate_desc desc = tessera_rotate_desc_default();
  desc.layout = rotary.layout;
  desc.x = x.c(), desc.out = out.c();
  desc.cos = rotary.cos.c(), desc.sin = rotary.sin.c();
  desc.offsets = at.offsets.c(), desc.positions = at.positions.c();
  detail::checked([&](tessera_error* error) { return tessera_rotate(context.c(), &desc, error); });
}

// Each field as in tessera_append_desc.
struct NewKeys {
  Tensor k = {}, v = {};              // [B, Lnew, Hk, D or Dv]
  Tensor k_cache = {}, v_cache = {};  // [B or rows, capacity, Hk, D or Dv], or pages
  Tensor kv_lengths = {};             // [B] before the call
  Tensor cache_batch_idx = {}, block_table = {};
  Rotary rotary = {};
};

// Puts new keys and values behind those of a cache. Throws Error before anything is written.
inline void append(const Context& context, const NewKeys& fresh) {
  tessera_append_desc desc = tessera_append_desc_default();
  desc.layout = fresh.rotary.layout;
  desc.k = fresh.k.c(), desc.v = fresh.v.c();
  desc.k_cache = fresh.k_cache.c(), desc.v_cache = fresh.v_cache.c();
  desc.kv_lengths = fresh.kv_lengths.c();
  desc.cache_batch_idx = fresh.cache_batch_idx.c(), desc.block_table = fresh.block_table.c();
  desc.cos = fresh.rotary.cos.c(), desc.sin = fresh.rotary.sin.c();
  detail::checked([&](tessera_error* error) { return tessera_append(context.c(), &desc, error); });
}

}  // namespace tessera
