// Shapes that do not fit each other.
#pragma once
#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

inline const Refusals kRefusedShapes = {
    {Sentence::kShape, "B of k", [](Subject& s) { s.desc.k.shape[0] = 1; }},
    {Sentence::kShape, "D of k", [](Subject& s) { s.desc.k.shape[3] = 7; }},
    {Sentence::kShape, "Lk of v", [](Subject& s) { s.desc.v.shape[1] = 2; }},
    {Sentence::kShape, "Hk of v", [](Subject& s) { s.desc.v.shape[2] = 1; }},
    {Sentence::kShape, "Lq of out", [](Subject& s) { s.desc.out.shape[1] = 2; }},
    {Sentence::kShape, "D in place of Dv in out", [](Subject& s) { s.desc.out.shape[3] = 4; }},
    {Sentence::kShape, "lse as [B, Lq, H]",
     [](Subject& s) { std::swap(s.desc.lse.shape[1], s.desc.lse.shape[2]); }},
    {Sentence::kShape, "lse with a fourth size",
     [](Subject& s) {
       s.desc.lse.shape[2] = 1;
       s.desc.lse.shape[3] = 3;
     }},
    {Sentence::kShape, "a sink for each key head",
     [](Subject& s) { s.desc.sink = s.hold(std::vector<float>(2), {2}); }},
    {Sentence::kShape, "lengths of one sequence",
     [](Subject& s) { s.desc.kv_lengths = s.hold(std::vector<std::int32_t>{1}, {1}); }},
    {Sentence::kShape, "starts with two sizes",
     [](Subject& s) { s.desc.kv_starts = s.hold(std::vector<std::int32_t>(4), {2, 2}); }},
    {Sentence::kShape, "offsets for three sequences",
     [](Subject& s) {
       s.desc.align = TESSERA_ALIGN_OFFSETS;
       s.desc.offsets = s.hold(std::vector<std::int64_t>(3), {3});
     }},
    {Sentence::kShape, "one batch row too many in packed q",
     [](Subject& s) {
       s.pack_queries();
       s.desc.q = s.hold(std::vector<float>(2 * 3 * 4 * 8), {2, 3, 4, 8});
     }},
    {Sentence::kShape, "boundaries of k for three sequences",
     [](Subject& s) {
       s.pack_keys();
       s.desc.cu_seqlens_k = s.hold(std::vector<std::int32_t>{0, 1, 2, 3}, {4});
     }},
    {Sentence::kShape, "a table for one sequence",
     [](Subject& s) {
       s.page();
       s.desc.block_table.shape[0] = 1;
     }},
    {Sentence::kShape, "a state of another Dv",
     [](Subject& s) {
       s.desc.state_out = s.hold(std::vector<float>(2 * 3 * 4 * 8), {2, 3, 4, 8});
       s.desc.state_lse = s.hold(std::vector<float>(2 * 4 * 3), {2, 4, 3});
     }},
    {Sentence::kShape, "sizes of fifteen digits",
     [](Subject& s) {
       s.desc.k.shape[0] = (std::int64_t{1} << 48) / 64;
       s.desc.k.stride[0] = 0;
     }},

    {Sentence::kBroadcast, "mask of 2 heads",
     [](Subject& s) { s.desc.mask = s.hold(std::vector<std::uint8_t>(18), {1, 2, 3, 3}); }},
    {Sentence::kBroadcast, "mask as [Lq, Lk]",
     [](Subject& s) { s.desc.mask = s.hold(std::vector<std::uint8_t>(9), {3, 3}); }},
    {Sentence::kBroadcast, "bias of more keys than there are",
     [](Subject& s) { s.desc.bias = s.hold(std::vector<float>(4), {1, 1, 1, 4}); }},
    {Sentence::kBroadcast, "mask that is shorter than the longest packed sequence",
     [](Subject& s) {
       s.pack_queries();
       s.desc.mask = s.hold(std::vector<std::uint8_t>(0), {1, 1, 0, 1});
     }},
    {Sentence::kBroadcast, "bias that is shorter than the longest paged sequence",
     [](Subject& s) {
       s.page();
       s.desc.bias = s.hold(std::vector<float>(2), {1, 1, 1, 2});
     }},
    {Sentence::kAlibiShape, "slopes of 3 heads",
     [](Subject& s) { s.desc.alibi = s.hold(std::vector<float>(3), {3}); }},
    {Sentence::kAlibiShape, "slopes as [1, H]",
     [](Subject& s) { s.desc.alibi = s.hold(std::vector<float>(4), {1, 4}); }},
    {Sentence::kBoundariesShape, "no boundaries at all",
     [](Subject& s) {
       s.pack_queries();
       s.desc.cu_seqlens_q.shape[0] = 0;
     }},
    {Sentence::kBoundariesShape, "boundaries of two sizes",
     [](Subject& s) {
       s.pack_keys();
       s.desc.cu_seqlens_k = s.hold(std::vector<std::int32_t>(6), {3, 2});
     }},

    {Sentence::kNoDim, "D is 0", [](Subject& s) { s.desc.q.shape[3] = s.desc.k.shape[3] = 0; }},
    {Sentence::kNoDim, "Dv is 0", [](Subject& s) { s.desc.v.shape[3] = s.desc.out.shape[3] = 0; }},
    {Sentence::kHeads, "4 heads over 3",
     [](Subject& s) {
       s.desc.k = s.hold(std::vector<float>(2 * 3 * 3 * 8), {2, 3, 3, 8});
       s.desc.v = s.hold(std::vector<float>(2 * 3 * 3 * 5), {2, 3, 3, 5});
     }},
    {Sentence::kNoHeads, "heads of q alone",
     [](Subject& s) { s.desc.k.shape[2] = s.desc.v.shape[2] = 0; }},
    {Sentence::kNoHeads, "heads of k alone",
     [](Subject& s) { s.desc.q.shape[2] = s.desc.out.shape[2] = s.desc.lse.shape[1] = 0; }},
    {Sentence::kLargeCall, "more scores than 64 bits count",
     [](Subject& s) {
       for (tessera_tensor* t : {&s.desc.k, &s.desc.v}) {
         t->shape[1] = std::int64_t{1} << 43;
         t->stride[1] = 0;
       }
       for (tessera_tensor* t : {&s.desc.q, &s.desc.out}) t->shape[1] = std::int64_t{1} << 42;
       s.desc.lse = tessera_tensor_default();
       s.desc.q.stride[1] = s.desc.out.stride[1] = 0;
     }},
    {Sentence::kLargeCall, "more sequences than 2^31, all empty",
     [](Subject& s) {
       s.desc = tessera_attention_desc_default();
       const std::int64_t batch = (std::int64_t{1} << 31) + 1;
       for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out})
         *t = dense(nullptr, TESSERA_FLOAT32, {batch, 0, 1, 1});
     }},
};

}  // namespace tessera::test
