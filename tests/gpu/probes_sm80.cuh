// Each word of sm_80 on random bits.
#pragma once
#include <isa/atomic.cuh>
#include <isa/convert.cuh>
#include <isa/copy.cuh>
#include <isa/math.cuh>
#include <isa/mma.cuh>

#include "gpu/probe.cuh"

namespace tessera::gpu {

struct Exp2 : Probe {
  static constexpr const char* kName = "exp2";
  static constexpr Input kInput = Input::kFloats;
  static constexpr Answer kAnswer = Answer::kFloats;
  static constexpr int kUlps = 2;  // PTX ISA, "ex2"
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = as_bits(isa::exp2(as_float(in[0])));
  }
};

struct Log2 : Probe {
  static constexpr const char* kName = "log2";
  static constexpr Input kInput = Input::kFloats;
  static constexpr Answer kAnswer = Answer::kFloats;
  static constexpr int kUlps = 8;  // PTX ISA, "lg2": 2^-22 absolute near 1, else 2 ulp
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    const float x = isa::abs(as_float(in[0]));
    out[0] = as_bits(isa::log2(x > 0.5f && x < 2 ? 3.f : x));
  }
};

struct Max : Probe {
  static constexpr const char* kName = "max";
  static constexpr int kIn = 2;
  static constexpr Answer kAnswer = Answer::kFloats;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = as_bits(isa::max(as_float(in[0]), as_float(in[1])));
  }
};

struct Fma : Probe {
  static constexpr const char* kName = "fma (float32)";
  static constexpr int kIn = 3;
  static constexpr Input kInput = Input::kFloats;
  static constexpr Answer kAnswer = Answer::kFloats;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = as_bits(isa::fma(as_float(in[0]), as_float(in[1]), as_float(in[2])));
  }
};

// Of two float32 each product is exact in double, and so is one rounding of the sum.
struct FmaDouble : Probe {
  static constexpr const char* kName = "fma (float64)";
  static constexpr int kIn = 3, kOut = 2;
  static constexpr Input kInput = Input::kFloats;
  static constexpr Answer kAnswer = Answer::kBits;
  TS_DEVICE static double finite(u32 bits) {
    const float x = as_float(bits);
    return isa::abs(x) < kInfinity ? double(x) : 1.0;
  }
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    const double y = isa::fma(finite(in[0]), finite(in[1]), finite(in[2]));
    const u64 bits = __builtin_bit_cast(u64, y);
    out[0] = u32(bits);
    out[1] = u32(bits >> 32);
  }
};

template <class T> struct ToFloat : Probe {
  static constexpr const char* kName =
      T::kExponent == Float16::kExponent ? "to_float (float16)" : "to_float (bfloat16)";
  static constexpr Answer kAnswer = Answer::kFloats;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = as_bits(isa::to_float(T{u16(in[0])}));
  }
};

template <class T> struct Pack : Probe {
  static constexpr const char* kName =
      T::kExponent == Float16::kExponent ? "pack (float16)" : "pack (bfloat16)";
  static constexpr int kIn = 2;
  // Where the payload of a NaN goes is not a promise.
  TS_DEVICE static float number(u32 bits) {
    const float x = as_float(bits);
    return x == x ? x : 0.f;
  }
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = isa::pack<T>(number(in[0]), number(in[1]));
  }
};

struct Shuffles : Probe {
  static constexpr const char* kName = "shuffle, shuffle_xor";
  static constexpr int kIn = 2, kOut = 2;
  static constexpr Answer kAnswer = Answer::kFloats;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = as_bits(isa::shuffle(as_float(in[0]), int(in[1] % 32)));
    out[1] = as_bits(isa::shuffle_xor(as_float(in[0]), int(isa::block().x % 32)));
  }
};

struct Votes : Probe {
  static constexpr const char* kName = "any, any_in_block";
  static constexpr int kThreads = 64, kOut = 2;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    out[0] = isa::any(in[0] % 32 == 0);
    out[1] = isa::any_in_block(in[0] % 64 == 0);
  }
};

struct Shared : Probe {
  static constexpr const char* kName = "store, load, load_word, sync_warp";
  static constexpr int kIn = 5, kOut = 6, kShared = 32 * 32;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    const u32 at = u32(isa::thread()) * 32;
    isa::store(shared(at), Vector4{in[0], in[1], in[2], in[3]});
    isa::store(shared(at + 16), in[4]);
    isa::sync_warp();
    const u32 other = at ^ 32 * (in[4] % 32);
    const Vector4 v = isa::load(shared(other));
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    out[4] = isa::load_word(shared(other + 16));
    out[5] = isa::load_word(shared(other + 8));
  }
};

// Two warps hand a word to each other through two named barriers.
struct Barriers : Probe {
  static constexpr const char* kName = "barrier_sync, barrier_arrive, sync_block";
  static constexpr int kThreads = 64, kOut = 2, kShared = 256;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    const u32 at = 4 * u32(isa::thread());
    isa::store(shared(at), in[0]);
    isa::sync_block();
    out[0] = isa::load_word(shared(at ^ 128));
    isa::sync_block();
    if (isa::warp() == 0) {
      isa::store(shared(at), ~in[0]);
      isa::barrier_arrive(1, 64);
      out[1] = in[0];
    } else {
      isa::barrier_sync(1, 64);
      out[1] = isa::load_word(shared(at ^ 128));
    }
  }
};

struct CopyAsync : Probe {
  static constexpr const char* kName = "copy_async, copy_commit, copy_wait";
  static constexpr int kIn = 4, kOut = 8, kShared = 1024;
  TS_DEVICE static void run(const ProbeParams& p, const u32* in, u32* out) {
    const u32 at = 16 * u32(isa::thread());
    const u32* from = p.in + 4 * (isa::block().x * 32 + isa::thread());
    isa::copy_async(shared(at), from, 16);
    isa::copy_commit();
    isa::copy_async(shared(512 + at), from, in[0] % 17);
    isa::copy_commit();
    isa::copy_wait<1>();
    const Vector4 a = isa::load(shared(at));
    isa::copy_wait<0>();
    const Vector4 b = isa::load(shared(512 + at));
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

struct Atomics : Probe {
  static constexpr const char* kName = "atomic_add, atomic_max, atomic_exchange, fence_device";
  static constexpr int kIn = 2, kOut = 6;
  static constexpr bool kStores = true;
  TS_DEVICE static void run(const ProbeParams& p, const u32* in, u32* out) {
    u32* words =
        reinterpret_cast<u32*>(p.tensor + isa::block().x * kTensorBytes) + 4 * isa::thread();
    out[0] = isa::atomic_add(words, in[0]);
    out[1] = isa::atomic_max(words, in[1]);
    out[2] = isa::atomic_exchange(words, in[0] ^ in[1]);
    isa::fence_device();
    out[3] = isa::atomic_add(words, 0u);
    float* number = reinterpret_cast<float*>(words + 1);
    isa::atomic_exchange(words + 1, as_bits(1.5f));
    out[4] = as_bits(isa::atomic_add(number, float(in[0] % 1000)));
    out[5] = as_bits(isa::atomic_add(number, 0.f));
  }
};

template <bool transposed> struct LoadMatrices : Probe {
  static constexpr const char* kName = transposed ? "load_matrices_transposed" : "load_matrices";
  static constexpr int kIn = 4, kOut = 4, kShared = 512;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    isa::store(shared(16 * u32(isa::lane())), Vector4{in[0], in[1], in[2], in[3]});
    isa::sync_warp();
    const Address row = shared(16 * (u32(isa::lane()) * 5 % 32));
    const Vector4 v = transposed ? isa::load_matrices_transposed(row) : isa::load_matrices(row);
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
  }
};

template <class T> struct Mma : Probe {
  static constexpr const char* kName =
      T::kExponent == Float16::kExponent ? "mma (float16)" : "mma (bfloat16)";
  static constexpr int kIn = 10, kOut = 4;
  static constexpr Input kInput =
      T::kExponent == Float16::kExponent ? Input::kFloat16s : Input::kBfloat16s;
  static constexpr Answer kAnswer = Answer::kSums;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    float d[4];
    for (int i = 0; i < 4; ++i) d[i] = isa::to_float(T{u16(in[6 + i])});
    isa::mma<T>(d, in, in + 4);
    for (int i = 0; i < 4; ++i) out[i] = as_bits(d[i]);
  }
};

using Sm80Probes =
    Probes<Exp2, Log2, Max, Fma, FmaDouble, ToFloat<Float16>, ToFloat<Bfloat16>, Pack<Float16>,
           Pack<Bfloat16>, Shuffles, Votes, Shared, Barriers, CopyAsync, Atomics,
           LoadMatrices<false>, LoadMatrices<true>, Mma<Float16>, Mma<Bfloat16>>;

}  // namespace tessera::gpu
