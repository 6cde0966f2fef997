// How a probe is run: each thread brings some words of input and takes some words of output. A
// probe is a kernel of a word or two, written in words, so that it has one source for silicon and
// emulator.
#pragma once
#include <isa/memory.cuh>

#include "gpu/probe_kinds.hpp"

namespace tessera::gpu {

struct ProbeParams {
  const u32* in;
  u32* out;
  u8* tensor;     // random bits to load from or to store over: kTensorBytes for each block
  TensorMap map;  // of all of it
};

// Rows of 64 elements.
constexpr TileMap kWholeTensor{.rank = 2,
                               .extent = {64, kBlocks* kTensorBytes / 128},
                               .stride = {2, 128},
                               .box = {64, 16},
                               .swizzle = Swizzle::k128B};

// What most probes say of themselves.
struct Probe {
  static constexpr int kThreads = 32, kIn = 1, kOut = 1, kShared = 0, kCluster = 1;
  static constexpr Input kInput = Input::kBits;
  static constexpr Answer kAnswer = Answer::kBits;
  static constexpr int kUlps = 0;
  static constexpr int kColumns = 0;  // of a product, and what it multiplies, for its name
  static constexpr const char* kElement = "";
  static constexpr bool kStores = false;  // to the tensor
  static constexpr TileMap kTile{};       // rank 0: the tensor is left alone
};

template <class... P> struct Probes {};

template <class P> TS_DEVICE void run_probe(const ProbeParams& p) {
  u32 in[P::kIn], out[P::kOut];
  const int at = isa::block().x * P::kThreads + isa::thread();
  for (int i = 0; i < P::kIn; ++i) in[i] = isa::load(p.in + at * P::kIn + i);
  P::run(p, in, out);
  for (int i = 0; i < P::kOut; ++i) isa::store(p.out + at * P::kOut + i, out[i]);
}

TS_DEVICE float as_float(u32 bits) { return __builtin_bit_cast(float, bits); }
TS_DEVICE u32 as_bits(float x) { return __builtin_bit_cast(u32, x); }
TS_DEVICE Address shared(u32 byte) { return Address(u32(isa::shared_base()) + byte); }

}  // namespace tessera::gpu
