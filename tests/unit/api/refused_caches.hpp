// Merges, rotations and appends that are refused. What they write is the memory of the subject's
// outputs, so that a trace would be seen.
#pragma once
#include <string_view>
#include <utility>

#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

// Two states [2, 3, 4, 5] into out and lse.
struct MergeSubject {
  explicit MergeSubject(Subject& s) : desc(tessera_merge_desc_default()) {
    for (tessera_state& state : states) {
      state.out = s.hold(std::vector<float>(120, 1.f), {2, 3, 4, 5});
      state.lse = s.hold(std::vector<float>(24, 0.5f), {2, 4, 3});
    }
    desc.states = states;
    desc.count = 2;
    desc.out = s.desc.out;
    desc.lse = s.desc.lse;
  }

  tessera_status call(tessera_context* context, tessera_error* error) const {
    return tessera_merge(context, &desc, error);
  }

  tessera_state states[2];
  tessera_merge_desc desc;
};

// x [2, 3, 4, 5] by tables [7, 2] into out.
struct RotateSubject {
  explicit RotateSubject(Subject& s) : desc(tessera_rotate_desc_default()) {
    desc.x = s.hold(std::vector<float>(120, 1.f), {2, 3, 4, 5});
    desc.out = s.desc.out;
    desc.cos = s.hold(std::vector<float>(14, 1.f), {7, 2});
    desc.sin = s.hold(std::vector<float>(14, 0.f), {7, 2});
  }

  tessera_status call(tessera_context* context, tessera_error* error) const {
    return tessera_rotate(context, &desc, error);
  }

  tessera_rotate_desc desc;
};

// One new key for each of two sequences, which have 0 and 2 of the 3 that out and lse have room
// for as caches [2, 3, 4, 5] and [2, 3, 4, 1].
struct AppendSubject {
  explicit AppendSubject(Subject& s) : desc(tessera_append_desc_default()) {
    desc.k = s.hold(std::vector<float>(40, 1.f), {2, 1, 4, 5});
    desc.v = s.hold(std::vector<float>(8, 2.f), {2, 1, 4, 1});
    desc.k_cache = s.desc.out;
    desc.v_cache = dense(s.desc.lse.data, TESSERA_FLOAT32, {2, 3, 4, 1});
    desc.kv_lengths = s.hold(std::vector<std::int32_t>{0, 2}, {2});
  }
  // The caches as 3 pages of 2 keys.
  void page(Subject& s) {
    desc.k_cache = dense(desc.k_cache.data, TESSERA_FLOAT32, {3, 2, 4, 5});
    desc.v_cache = dense(desc.v_cache.data, TESSERA_FLOAT32, {3, 2, 4, 1});
    desc.block_table = s.hold(std::vector<std::int32_t>{1, -5, 2, 0}, {2, 2});
  }
  void rotate(Subject& s) {
    desc.cos = s.hold(std::vector<float>(6, 1.f), {3, 2});
    desc.sin = s.hold(std::vector<float>(6, 0.f), {3, 2});
  }

  tessera_status call(tessera_context* context, tessera_error* error) const {
    return tessera_append(context, &desc, error);
  }

  tessera_append_desc desc;
};

// A call of the kind T with one thing wrong.
template <class T, class Spoil>
Refusal refusal(Sentence id, std::string_view what, const Spoil& spoil) {
  return {id, what, {}, [spoil](const Subject& given) {
            auto& s = const_cast<Subject&>(given);
            T subject(s);
            spoil(subject, s);
            tessera_error error = tessera_error_default();
            const TemporaryContext temporary(s.config);
            const tessera_status status = subject.call(temporary.context, &error);
            return Answer{status, error.message};
          }};
}

template <class Spoil>
Refusal merge_refusal(Sentence id, std::string_view what, const Spoil& spoil) {
  return refusal<MergeSubject>(id, what, spoil);
}
template <class Spoil>
Refusal rotate_refusal(Sentence id, std::string_view what, const Spoil& spoil) {
  return refusal<RotateSubject>(id, what, spoil);
}
template <class Spoil>
Refusal append_refusal(Sentence id, std::string_view what, const Spoil& spoil) {
  return refusal<AppendSubject>(id, what, spoil);
}

inline const Refusals kRefusedMerges = {
    merge_refusal(Sentence::kStates, "a count without states",
                  [](MergeSubject& m, Subject&) { m.desc.states = nullptr; }),
    merge_refusal(Sentence::kFlags, "flags of a merge",
                  [](MergeSubject& m, Subject&) { m.desc.flags = 1; }),
    merge_refusal(Sentence::kStructSize, "a merge without size",
                  [](MergeSubject& m, Subject&) { m.desc.size = 0; }),
    merge_refusal(Sentence::kMissing, "a state without lse",
                  [](MergeSubject& m, Subject&) { m.states[1].lse.data = nullptr; }),
    merge_refusal(Sentence::kMissing, "a merge without out",
                  [](MergeSubject& m, Subject&) { m.desc.out.data = nullptr; }),
    merge_refusal(Sentence::kNoDim, "a merge of rows without elements",
                  [](MergeSubject& m, Subject&) { m.desc.out.shape[3] = 0; }),
    merge_refusal(Sentence::kDtype, "a state of 16 bits",
                  [](MergeSubject& m, Subject&) { m.states[0].out.dtype = TESSERA_FLOAT16; }),
    merge_refusal(Sentence::kOtherShape, "a state with another head dimension",
                  [](MergeSubject& m, Subject&) { m.states[1].out.shape[3] = 4; }),
    merge_refusal(Sentence::kOtherShape, "an lse in the order of out",
                  [](MergeSubject& m, Subject& s) {
                    m.states[0].lse = s.hold(std::vector<float>(24), {2, 3, 4});
                  }),
    merge_refusal(Sentence::kOtherShape, "the merged lse of another batch",
                  [](MergeSubject& m, Subject&) { m.desc.lse.shape[0] = 1; }),
    merge_refusal(Sentence::kReadOnlyOutput, "a merge into what may not be written",
                  [](MergeSubject& m, Subject&) { m.desc.lse.flags = TESSERA_READ_ONLY; }),
    merge_refusal(Sentence::kSelfOverlap, "a merge into one row",
                  [](MergeSubject& m, Subject&) { m.desc.out.stride[1] = 0; }),
    merge_refusal(Sentence::kOverlap, "a state that lies across out",
                  [](MergeSubject& m, Subject&) {
                    m.states[0].out = m.desc.out;
                    m.states[0].out.stride[0] = 20;  // and lse too
                    m.states[0].out.stride[1] = 40;
                  }),
    merge_refusal(Sentence::kOverlap, "a state whose lse lies in out",
                  [](MergeSubject& m, Subject&) { m.states[1].lse.data = m.desc.out.data; }),
    merge_refusal(Sentence::kOverlap, "lse in out of a merge",
                  [](MergeSubject& m, Subject&) { m.desc.lse.data = m.desc.out.data; }),
};

inline const Refusals kRefusedRotations = {
    rotate_refusal(Sentence::kRotaryLayout, "a third layout",
                   [](RotateSubject& r, Subject&) { r.desc.layout = 2; }),
    rotate_refusal(Sentence::kReserved, "reserved of a rotation",
                   [](RotateSubject& r, Subject&) { r.desc.reserved = 1; }),
    rotate_refusal(
        Sentence::kMissing, "a rotation without tables",
        [](RotateSubject& r, Subject&) { r.desc.cos = r.desc.sin = tessera_tensor_default(); }),
    rotate_refusal(Sentence::kNeeds, "cos without sin",
                   [](RotateSubject& r, Subject&) { r.desc.sin = tessera_tensor_default(); }),
    rotate_refusal(Sentence::kOtherShape, "sin of fewer positions",
                   [](RotateSubject& r, Subject&) { r.desc.sin.shape[0] = 6; }),
    rotate_refusal(Sentence::kOtherShape, "out of fewer heads",
                   [](RotateSubject& r, Subject&) { r.desc.out.shape[2] = 3; }),
    rotate_refusal(Sentence::kOtherDtype, "out of 16 bits",
                   [](RotateSubject& r, Subject&) { r.desc.out.dtype = TESSERA_BFLOAT16; }),
    rotate_refusal(Sentence::kTableDtype, "tables of 16 bits for float32",
                   [](RotateSubject& r, Subject&) { r.desc.sin.dtype = TESSERA_FLOAT16; }),
    rotate_refusal(Sentence::kRotaryDim, "more pairs than a head has",
                   [](RotateSubject& r, Subject& s) {
                     r.desc.cos = r.desc.sin = s.hold(std::vector<float>(21), {7, 3});
                   }),
    rotate_refusal(Sentence::kRotaryDim, "tables without pairs",
                   [](RotateSubject& r, Subject&) { r.desc.cos.shape[1] = 0; }),
    rotate_refusal(Sentence::kTwoPositions, "offsets and positions",
                   [](RotateSubject& r, Subject& s) {
                     r.desc.offsets = s.hold(std::vector<std::int32_t>(2), {2});
                     r.desc.positions = s.hold(std::vector<std::int32_t>(6), {2, 3});
                   }),
    rotate_refusal(Sentence::kOtherShape, "positions of one sequence",
                   [](RotateSubject& r, Subject& s) {
                     r.desc.positions = s.hold(std::vector<std::int32_t>(3), {1, 3});
                   }),
    rotate_refusal(Sentence::kPositionRange, "an offset past the tables",
                   [](RotateSubject& r, Subject& s) {
                     r.desc.offsets = s.hold(std::vector<std::int32_t>{4, 5}, {2});
                   }),
    rotate_refusal(Sentence::kPositionRange, "a negative position",
                   [](RotateSubject& r, Subject& s) {
                     r.desc.positions =
                         s.hold(std::vector<std::int64_t>{0, 1, 2, 3, -1, 4}, {2, 3});
                   }),
    rotate_refusal(Sentence::kPositionRange, "an offset at the end of int64",
                   [](RotateSubject& r, Subject& s) {
                     r.desc.offsets = s.hold(std::vector<std::int64_t>{0, INT64_MAX}, {2});
                   }),
    rotate_refusal(Sentence::kOverlap, "out one element beside x",
                   [](RotateSubject& r, Subject&) {
                     r.desc.x.data = static_cast<float*>(r.desc.out.data) + 1;
                   }),
    rotate_refusal(Sentence::kOverlap, "a table in out",
                   [](RotateSubject& r, Subject&) { r.desc.cos.data = r.desc.out.data; }),
};

inline const Refusals kRefusedAppends = {
    append_refusal(Sentence::kFlags, "flags of an append",
                   [](AppendSubject& a, Subject&) { a.desc.flags = 2; }),
    append_refusal(
        Sentence::kMissing, "an append without lengths",
        [](AppendSubject& a, Subject&) { a.desc.kv_lengths = tessera_tensor_default(); }),
    append_refusal(Sentence::kOtherShape, "a cache of another batch",
                   [](AppendSubject& a, Subject&) { a.desc.k_cache.shape[0] = 1; }),
    append_refusal(Sentence::kOtherShape, "new values of fewer heads",
                   [](AppendSubject& a, Subject&) { a.desc.v.shape[2] = 2; }),
    append_refusal(Sentence::kOtherShape, "lengths of three sequences",
                   [](AppendSubject& a, Subject& s) {
                     a.desc.kv_lengths = s.hold(std::vector<std::int32_t>(3), {3});
                   }),
    append_refusal(Sentence::kOtherDtype, "a cache of 16 bits",
                   [](AppendSubject& a, Subject&) { a.desc.v_cache.dtype = TESSERA_FLOAT16; }),
    append_refusal(Sentence::kNoDim, "new keys without elements",
                   [](AppendSubject& a, Subject&) { a.desc.k.shape[3] = 0; }),
    append_refusal(Sentence::kTogether, "pages and rows of a cache",
                   [](AppendSubject& a, Subject& s) {
                     a.page(s);
                     a.desc.cache_batch_idx = s.hold(std::vector<std::int32_t>{0, 1}, {2});
                   }),
    append_refusal(Sentence::kLengthRange, "a negative length",
                   [](AppendSubject& a, Subject& s) {
                     a.desc.kv_lengths = s.hold(std::vector<std::int64_t>{0, -1}, {2});
                   }),
    append_refusal(Sentence::kCacheFull, "a full sequence behind one that has room",
                   [](AppendSubject& a, Subject& s) {
                     a.desc.kv_lengths = s.hold(std::vector<std::int64_t>{0, 3}, {2});
                   }),
    append_refusal(Sentence::kCacheFull, "a table without pages",
                   [](AppendSubject& a, Subject& s) {
                     a.page(s);
                     a.desc.kv_lengths = s.hold(std::vector<std::int64_t>{0, 0}, {2});
                     a.desc.block_table = s.hold(std::vector<std::int32_t>(), {2, 0});
                     a.desc.block_table.data = nullptr;
                   }),
    append_refusal(Sentence::kCacheSmall, "more keys than places",
                   [](AppendSubject& a, Subject&) {
                     a.desc.k.shape[1] = a.desc.v.shape[1] = 4;
                     a.desc.k.stride[1] = a.desc.v.stride[1] = 0;
                   }),
    append_refusal(Sentence::kCapacity, "room beyond reason",
                   [](AppendSubject& a, Subject& s) {
                     a.desc.block_table = s.hold(std::vector<std::int32_t>{0, 1}, {2, 1});
                     a.desc.block_table.shape[1] = std::int64_t{1} << 47;
                     a.desc.block_table.stride[0] = a.desc.block_table.stride[1] = 0;
                   }),
    append_refusal(Sentence::kRowRange, "a row that the cache does not have",
                   [](AppendSubject& a, Subject& s) {
                     a.desc.cache_batch_idx = s.hold(std::vector<std::int32_t>{0, 2}, {2});
                   }),
    append_refusal(Sentence::kNewKeyPage, "a page that the cache does not have",
                   [](AppendSubject& a, Subject& s) {
                     a.page(s);
                     a.desc.kv_lengths = s.hold(std::vector<std::int32_t>{2, 0}, {2});
                   }),
    append_refusal(Sentence::kSamePlace, "two sequences in one row of the cache",
                   [](AppendSubject& a, Subject& s) {
                     a.desc.kv_lengths = s.hold(std::vector<std::int32_t>{1, 1}, {2});
                     a.desc.cache_batch_idx = s.hold(std::vector<std::int32_t>{1, 1}, {2});
                   }),
    append_refusal(Sentence::kSamePlace, "two sequences in one page",
                   [](AppendSubject& a, Subject& s) {
                     a.page(s);
                     a.desc.block_table = s.hold(std::vector<std::int32_t>{1, 0, 2, 1}, {2, 2});
                   }),
    append_refusal(Sentence::kPositionRange, "a key past the tables",
                   [](AppendSubject& a, Subject& s) {
                     a.rotate(s);
                     a.desc.cos.shape[0] = a.desc.sin.shape[0] = 2;
                   }),
    append_refusal(Sentence::kReadOnlyOutput, "a cache that may not be written",
                   [](AppendSubject& a, Subject&) { a.desc.v_cache.flags = TESSERA_READ_ONLY; }),
    append_refusal(Sentence::kSelfOverlap, "a cache whose heads are one",
                   [](AppendSubject& a, Subject&) { a.desc.k_cache.stride[2] = 0; }),
    append_refusal(Sentence::kOverlap, "new keys in the cache",
                   [](AppendSubject& a, Subject&) { a.desc.k.data = a.desc.k_cache.data; }),
    append_refusal(Sentence::kOverlap, "one cache in the other",
                   [](AppendSubject& a, Subject&) { a.desc.v_cache.data = a.desc.k_cache.data; }),
};

}  // namespace tessera::test
