// wgmma on random numbers, which it finds by random descriptors.
#pragma once
#include <isa/tensor_copy.cuh>
#include <isa/wgmma.cuh>

#include "gpu/probe.cuh"

namespace tessera::gpu {

constexpr u32 kImageBytes = 112 * 1024;  // of shared memory, from the tensor

// The image of block b begins in its part of the tensor and ends in that of later ones.
TS_DEVICE void fill_image(const ProbeParams& p) {
  for (u32 i = u32(isa::thread()) * 16; i < kImageBytes; i += 128 * 16) {
    const u32 from = (u32(isa::block().x) * kTensorBytes + i) % u32(kBlocks * kTensorBytes);
    isa::store(shared(i), isa::load(reinterpret_cast<const Vector4*>(p.tensor + from)));
  }
  isa::fence_async();
  isa::sync_block();
}

// As kernels write them, or with starts and strides that are odd multiples of 16.
TS_DEVICE u64 random_matrix(u32 bits) {
  const auto swizzle = Swizzle(bits % 4);
  const u32 width = swizzle == Swizzle::kNone ? 16 : 256u >> u32(swizzle);
  const u32 unit = bits >> 2 & 1 ? 16 : 8 * width;
  const u32 start = unit * (1 + (bits >> 3) % (8192 / unit));
  const u32 leading = unit * (1 + (bits >> 12) % (3072 / unit));
  const u32 stride = unit * (1 + (bits >> 20) % (3072 / unit));
  return isa::matrix(shared(start), leading, stride, swizzle);
}

template <class T, int n> struct ProbeOfWgmma : Probe {
  static constexpr int kThreads = 128, kIn = 6, kOut = n / 2, kShared = int(kImageBytes);
  static constexpr int kColumns = n;
  static constexpr bool kIsFloat16 = T::kExponent == Float16::kExponent;
  static constexpr const char* kElement = kIsFloat16 ? "f16" : "bf16";
  static constexpr Input kInput = kIsFloat16 ? Input::kFloat16s : Input::kBfloat16s;
  static constexpr Answer kAnswer = Answer::kSums;

  TS_DEVICE static void give(const isa::Registers<float, n / 2>& d, u32* out) {
    TS_UNROLL for (int i = 0; i < d.size; ++i) out[i] = as_bits(d[i]);
  }
  // The block's own random bits; inputs are numbers, so they are mixed.
  TS_DEVICE static u32 bits(const ProbeParams& p, int which) {
    u32 x = isa::load(p.in + isa::block().x * kThreads * kIn + which) * 2654435761u;
    x ^= x >> 15;
    return x * 2246822519u;
  }
};

template <class T, int n, Major a, Major b> struct Wgmma : ProbeOfWgmma<T, n> {
  static constexpr const char* kNames[4] = {
      "wgmma, A K-major, B K-major", "wgmma, A K-major, B MN-major", "wgmma, A MN-major, B K-major",
      "wgmma, A MN-major, B MN-major"};
  static constexpr const char* kName = kNames[2 * int(a) + int(b)];
  TS_DEVICE static void run(const ProbeParams& p, const u32*, u32* out) {
    using Base = ProbeOfWgmma<T, n>;
    fill_image(p);
    const u64 left = random_matrix(Base::bits(p, 0)), right = random_matrix(Base::bits(p, 1));
    isa::Registers<float, n / 2> d;
    isa::wgmma_fence(d);
    isa::wgmma<T, a, b>(d, left, right, false);
    isa::wgmma_commit(d);
    isa::wgmma_wait<0>(d);
    Base::give(d, out);
  }
};

// The second product is added to the first.
template <class T, int n, Major b> struct WgmmaOfRegisters : ProbeOfWgmma<T, n> {
  static constexpr const char* kName =
      b == Major::kK ? "wgmma, A in registers, B K-major" : "wgmma, A in registers, B MN-major";
  TS_DEVICE static void run(const ProbeParams& p, const u32* in, u32* out) {
    using Base = ProbeOfWgmma<T, n>;
    fill_image(p);
    const u64 right = random_matrix(Base::bits(p, 0));
    isa::Registers<float, n / 2> d;
    isa::Registers<u32, 4> a;
    TS_UNROLL for (int i = 0; i < 4; ++i) a[i] = in[i];
    isa::wgmma_fence(d, a);
    isa::wgmma<T, b>(d, isa::step_of(a, 0), right, false);
    isa::wgmma<T, b>(d, isa::step_of(a, 0), isa::advance(right, 16), true);
    isa::wgmma_commit(d);
    isa::wgmma_wait<0>(d);
    Base::give(d, out);
  }
};

}  // namespace tessera::gpu
