// Tensors that are refused, each for itself or for where it lies.
#pragma once
#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

inline void move_data(tessera_tensor& t, std::ptrdiff_t bytes) {
  t.data = static_cast<std::byte*>(t.data) + bytes;
}

inline const Refusals kRefusedTensors = {
    {Sentence::kMissing, "no q", [](Subject& s) { s.desc.q.data = nullptr; }},
    {Sentence::kMissing, "no k", [](Subject& s) { s.desc.k = tessera_tensor_default(); }},
    {Sentence::kMissing, "no v", [](Subject& s) { s.desc.v.data = nullptr; }},
    {Sentence::kMissing, "no out", [](Subject& s) { s.desc.out.data = nullptr; }},

    {Sentence::kNegativeSize, "negative Lq", [](Subject& s) { s.desc.q.shape[1] = -3; }},
    {Sentence::kNegativeSize, "lowest B", [](Subject& s) { s.desc.lse.shape[0] = INT64_MIN; }},
    {Sentence::kLargeSize, "Lk past 2^48",
     [](Subject& s) {
       s.desc.k.shape[1] = (std::int64_t{1} << 48) + 1;
       s.desc.k.stride[1] = 0;
     }},
    {Sentence::kLargeSize, "sizes whose product wraps to 0",
     [](Subject& s) {
       for (std::int64_t& size : s.desc.k.shape) size = std::int64_t{1} << 16;
     }},
    {Sentence::kLargeSize, "many batches of nothing",
     [](Subject& s) {
       s.desc.q.shape[0] = s.desc.q.shape[2] = std::int64_t{1} << 40;
       s.desc.q.shape[1] = 0;
     }},
    {Sentence::kSpan, "highest stride", [](Subject& s) { s.desc.q.stride[0] = INT64_MAX; }},
    {Sentence::kSpan, "lowest strides",
     [](Subject& s) {
       for (std::int64_t& stride : s.desc.v.stride) stride = INT64_MIN;
     }},
    {Sentence::kSpan, "strides whose sum is too far",
     [](Subject& s) {
       s.desc.q.stride[0] = std::int64_t{1} << 45;
       s.desc.q.stride[1] = std::int64_t{1} << 44;
       s.desc.q.stride[2] = std::int64_t{-1} * (std::int64_t{1} << 44);
     }},
    {Sentence::kSpan, "a stride that leads below address 0",
     [](Subject& s) {
       s.desc.mask = dense(reinterpret_cast<void*>(16), TESSERA_BOOL, {2, 4, 3, 3});
       s.desc.mask.stride[0] = -17;
     }},
    {Sentence::kSpan, "data at the end of memory",
     [](Subject& s) { s.desc.k.data = reinterpret_cast<void*>(UINTPTR_MAX - 15); }},

    {Sentence::kUnknownDtype, "dtype of q", [](Subject& s) { s.desc.q.dtype = 0x2001; }},
    {Sentence::kUnknownDtype, "dtype 0 of a mask",
     [](Subject& s) {
       s.desc.mask = dense(s.keep(std::vector<std::uint8_t>(9, 1)), 0, {1, 1, 3, 3});
     }},
    {Sentence::kDtype, "q of integers", [](Subject& s) { s.desc.q.dtype = TESSERA_INT32; }},
    {Sentence::kDtype, "mask of floats",
     [](Subject& s) { s.desc.mask = s.hold(std::vector<float>(9), {1, 1, 3, 3}); }},
    {Sentence::kDtype, "bias of integers",
     [](Subject& s) { s.desc.bias = s.hold(std::vector<std::int32_t>(9), {1, 1, 3, 3}); }},
    {Sentence::kDtype, "bias of float64",
     [](Subject& s) {
       s.desc.bias = dense(s.keep(std::vector<double>(9)), TESSERA_FLOAT64, {1, 1, 3, 3});
     }},
    {Sentence::kDtype, "slopes of integers",
     [](Subject& s) { s.desc.alibi = s.hold(std::vector<std::int32_t>(4), {4}); }},
    {Sentence::kDtype, "sink of integers",
     [](Subject& s) { s.desc.sink = s.hold(std::vector<std::int64_t>(4), {4}); }},
    {Sentence::kDtype, "lengths of floats",
     [](Subject& s) { s.desc.kv_lengths = s.hold(std::vector<float>(2), {2}); }},
    {Sentence::kDtype, "cache rows of int64",
     [](Subject& s) { s.desc.cache_batch_idx = s.hold(std::vector<std::int64_t>(2), {2}); }},
    {Sentence::kDtype, "lse of float16", [](Subject& s) { s.desc.lse.dtype = TESSERA_FLOAT16; }},
    {Sentence::kDtype, "lse of float64 where q is float32",
     [](Subject& s) {
       s.desc.lse = dense(s.keep(std::vector<double>(24)), TESSERA_FLOAT64, {2, 4, 3});
     }},
    {Sentence::kMixedDtype, "k of float16", [](Subject& s) { s.desc.k.dtype = TESSERA_FLOAT16; }},
    {Sentence::kMixedDtype, "v of bfloat16", [](Subject& s) { s.desc.v.dtype = TESSERA_BFLOAT16; }},
    {Sentence::kOutDtype, "out of float16", [](Subject& s) { s.desc.out.dtype = TESSERA_FLOAT16; }},

    {Sentence::kOneDevice, "q alone on CUDA",
     [](Subject& s) { s.desc.q.device_type = TESSERA_CUDA; }},
    {Sentence::kOneDevice, "out alone on CUDA",
     [](Subject& s) { s.desc.out.device_type = TESSERA_CUDA; }},
    {Sentence::kOneDevice, "v on another GPU",
     [](Subject& s) {
       s.put_on_gpu();
       s.desc.v.device_id = 1;
     }},
    {Sentence::kDevice, "out nowhere", [](Subject& s) { s.desc.out.device_type = 0; }},
    {Sentence::kTensorFlags, "flags of k", [](Subject& s) { s.desc.k.flags = 2; }},
    {Sentence::kMisaligned, "q beside its element",
     [](Subject& s) {
       move_data(s.desc.q, 2);
       s.desc.q.shape[0] = s.desc.k.shape[0] = 1;
     }},
    {Sentence::kMisaligned, "lengths beside their element",
     [](Subject& s) {
       s.desc.kv_lengths = s.hold(std::vector<std::int64_t>(3), {2});
       move_data(s.desc.kv_lengths, 4);
     }},

    {Sentence::kReadOnlyOutput, "out", [](Subject& s) { s.desc.out.flags = TESSERA_READ_ONLY; }},
    {Sentence::kReadOnlyOutput, "lse", [](Subject& s) { s.desc.lse.flags = TESSERA_READ_ONLY; }},
    {Sentence::kSelfOverlap, "out with stride 0", [](Subject& s) { s.desc.out.stride[0] = 0; }},
    {Sentence::kSelfOverlap, "rows of out that run into each other",
     [](Subject& s) { s.desc.out.stride[2] = 4; }},
    {Sentence::kSelfOverlap, "lse with a negative stride on another",
     [](Subject& s) {
       s.desc.lse.stride[1] = -3;
       move_data(s.desc.lse, 3 * 3 * 4);
       s.desc.lse.stride[0] = 9;
     }},
    {Sentence::kOverlap, "out on q", [](Subject& s) { s.desc.out.data = s.desc.q.data; }},
    {Sentence::kOverlap, "lse on the last element of v",
     [](Subject& s) { s.desc.v.data = static_cast<float*>(s.desc.lse.data) - 59; }},
    {Sentence::kOverlap, "lse on out", [](Subject& s) { s.desc.lse.data = s.desc.out.data; }},
    {Sentence::kOverlap, "out on a mask",
     [](Subject& s) { s.desc.mask = dense(s.desc.out.data, TESSERA_BOOL, {1, 1, 1, 3}); }},
    {Sentence::kOverlap, "workspace on k",
     [](Subject& s) {
       s.desc.workspace = s.workspace();
       s.desc.workspace_bytes = 65536;
       s.desc.k.data = s.workspace() + 65536 - 2 * 3 * 2 * 8 * 4;
     }},
    {Sentence::kOverlap, "score_max on out",
     [](Subject& s) {
       s.desc.backend = TESSERA_BACKEND_REFERENCE;
       s.desc.score_max = static_cast<double*>(s.desc.out.data) + 3;
     }},
};

}  // namespace tessera::test
