// Lengths, boundaries and page numbers that lead out of what there is.
#pragma once
#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

inline tessera_tensor ints(Subject& s, const std::vector<std::int32_t>& x) {
  return s.hold(x, {std::int64_t(x.size())});
}
inline tessera_tensor longs(Subject& s, const std::vector<std::int64_t>& x) {
  return s.hold(x, {std::int64_t(x.size())});
}

inline const Refusals kRefusedLengths = {
    {Sentence::kNeeds, "seqused_q without packed queries",
     [](Subject& s) { s.desc.seqused_q = ints(s, {1, 1}); }},
    {Sentence::kNeeds, "seqused_k without packed keys",
     [](Subject& s) { s.desc.seqused_k = ints(s, {1, 1}); }},
    {Sentence::kNeeds, "pages without lengths",
     [](Subject& s) {
       s.page();
       s.desc.kv_lengths = tessera_tensor_default();
     }},
    {Sentence::kNeeds, "state_out alone",
     [](Subject& s) { s.desc.state_out = s.hold(std::vector<float>(120), {2, 3, 4, 5}); }},
    {Sentence::kNeeds, "state_lse alone",
     [](Subject& s) { s.desc.state_lse = s.hold(std::vector<float>(24), {2, 4, 3}); }},
    {Sentence::kTogether, "pages and packed keys",
     [](Subject& s) {
       s.page();
       s.desc.cu_seqlens_k = ints(s, {0, 1, 2});
     }},
    {Sentence::kTogether, "pages and cache rows",
     [](Subject& s) {
       s.page();
       s.desc.cache_batch_idx = ints(s, {0, 1});
     }},
    {Sentence::kTogether, "packed keys and cache rows",
     [](Subject& s) {
       s.pack_keys();
       s.desc.cache_batch_idx = ints(s, {0, 1});
     }},
    {Sentence::kCapacity, "room for more keys than 64 bits count",
     [](Subject& s) {
       s.page();
       s.desc.block_table.shape[1] = std::int64_t{1} << 40;
       s.desc.block_table.stride[1] = 0;
       for (tessera_tensor* t : {&s.desc.k, &s.desc.v}) {
         t->shape[1] = std::int64_t{1} << 40;
         t->stride[1] = 0;
       }
     }},

    {Sentence::kLengthRange, "a length past the keys",
     [](Subject& s) { s.desc.kv_lengths = ints(s, {3, 4}); }},
    {Sentence::kLengthRange, "a negative length",
     [](Subject& s) { s.desc.kv_lengths = longs(s, {-1, 3}); }},
    {Sentence::kLengthRange, "a length of int64 that is 0 in 32 bits",
     [](Subject& s) { s.desc.kv_lengths = longs(s, {1, std::int64_t{1} << 32}); }},
    {Sentence::kLengthRange, "a length past a packed sequence",
     [](Subject& s) {
       s.pack_keys();
       s.desc.kv_lengths = ints(s, {2, 2});
     }},
    {Sentence::kLengthRange, "a length past the pages of the table",
     [](Subject& s) {
       s.page();
       s.desc.kv_lengths = ints(s, {3, 5});
     }},
    {Sentence::kLengthRange, "a negative start",
     [](Subject& s) { s.desc.kv_starts = ints(s, {0, -1}); }},
    {Sentence::kLengthRange, "a start past the keys",
     [](Subject& s) { s.desc.kv_starts = longs(s, {INT64_MAX, 0}); }},
    {Sentence::kLengthRange, "more queries used than packed",
     [](Subject& s) {
       s.pack_queries();
       s.desc.seqused_q = ints(s, {1, 3});
     }},
    {Sentence::kLengthRange, "more keys used than packed",
     [](Subject& s) {
       s.pack_keys();
       s.desc.seqused_k = ints(s, {2, 1});
     }},
    {Sentence::kRowRange, "a cache row that is not there",
     [](Subject& s) { s.desc.cache_batch_idx = ints(s, {0, 2}); }},
    {Sentence::kRowRange, "a negative cache row",
     [](Subject& s) { s.desc.cache_batch_idx = ints(s, {-1, 0}); }},

    {Sentence::kFirstBoundary, "queries that begin at row 1",
     [](Subject& s) {
       s.pack_queries();
       s.desc.cu_seqlens_q = ints(s, {1, 1, 3});
     }},
    {Sentence::kFirstBoundary, "keys that begin before row 0",
     [](Subject& s) {
       s.pack_keys();
       s.desc.cu_seqlens_k = longs(s, {INT64_MIN, 1, 3});
     }},
    {Sentence::kBoundaryOrder, "a sequence of -1 queries",
     [](Subject& s) {
       s.pack_queries();
       s.desc.cu_seqlens_q = ints(s, {0, 3, 2});
     }},
    {Sentence::kLastBoundary, "more keys than rows",
     [](Subject& s) {
       s.pack_keys();
       s.desc.cu_seqlens_k = longs(s, {0, 1, 4});
     }},
    {Sentence::kNoPage, "pages of nothing",
     [](Subject& s) {
       s.page();
       s.desc.k.shape[1] = s.desc.v.shape[1] = 0;
       s.desc.kv_lengths = ints(s, {0, 0});
     }},
    {Sentence::kPageRange, "a page that is not there",
     [](Subject& s) {
       s.page();
       s.desc.block_table = s.hold(std::vector<std::int32_t>{2, 3, 1, 0}, {2, 2});
     }},
    {Sentence::kPageRange, "a negative page that is needed",
     [](Subject& s) {
       s.page();
       s.desc.kv_lengths = ints(s, {3, 3});
     }},
};

}  // namespace tessera::test
