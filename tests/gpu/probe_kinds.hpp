// How probes are asked and judged, for both worlds and the host.
#pragma once
#include "device/types.cuh"

namespace tessera::gpu {

using namespace tessera::device;

constexpr int kBlocks = 64, kTensorBytes = 16384;

// How answers are compared, and what inputs look like.
enum class Answer {
  kBits,    // equal bits
  kFloats,  // float32: equal bits, all NaNs alike, and so many units in the last place
  kSums,    // float32 sums of 16 products of numbers below 2, in any order and rounding
};
enum class Input {
  kBits,      // any
  kFloats,    // float32 from -200 to 200, one in eight any bits
  kFloat16s,  // two of them, from -2 to 2
  kBfloat16s,
};

}  // namespace tessera::gpu
