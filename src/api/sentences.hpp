// Every sentence with which the C interface refuses a call. docs/reference/errors.md is made from
// this table, and a test provokes each of its rows.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "core/error.hpp"

namespace tessera::api {

enum class Sentence {
  kNullStruct,
  kNullContext,
  kNullPlace,
  kNullBuffer,
  kStructSize,
  kNewerStruct,
  kFlags,
  kReserved,

  kMissing,
  kNegativeSize,
  kLargeSize,
  kSpan,
  kUnknownDtype,
  kDtype,
  kMixedDtype,
  kOutDtype,
  kDevice,
  kOneDevice,
  kHostOnly,
  kTensorFlags,
  kMisaligned,
  kReadOnlyOutput,
  kSelfOverlap,
  kOverlap,

  kShape,
  kBroadcast,
  kAlibiShape,
  kBoundariesShape,
  kGradientShape,
  kBiasGradientShape,
  kNoDim,
  kHeads,
  kNoHeads,
  kLargeCall,

  kNeeds,
  kTogether,
  kCapacity,
  kLengthRange,
  kRowRange,
  kFirstBoundary,
  kBoundaryOrder,
  kLastBoundary,
  kNoPage,
  kPageRange,

  kBackend,
  kBackendDevice,
  kForwardOnly,
  kAlign,
  kAlignNeeded,
  kAlignNeededFor,
  kAlignNeededThere,
  kOffsetUnused,
  kOffsets,
  kScale,
  kSoftcap,
  kBand,
  kDropout,
  kExpression,
  kStream,
  kDiagnostics,
  kBackwardFlags,
  kNoGradient,
  kPagedGradient,
  kStateGradient,
  kNoWorkspace,
  kSmallWorkspace,
  kMisalignedPointer,

  kThreads,
  kThreadsVariable,
  kTarget,
  kOpenmp,
  kAllocator,

  kAttentionFlags,
  kNotInvariant,

  kStates,
  kOtherShape,
  kOtherDtype,
  kTableDtype,
  kRotaryDim,
  kRotaryLayout,
  kTwoPositions,
  kPositionRange,
  kCacheFull,
  kCacheSmall,
  kNewKeyPage,
  kSamePlace,

  // Worded where they arise: src/plan and src/cpu do not see this table
  kCpuLacks,
  kWorkspaceMemory,
  kNoMemory,
  kUnexpected,
};

struct SentenceRow {
  Sentence id;
  core::Status status;
  std::string_view text;  // {} stands for what was given and what is accepted
};

namespace rows {
using enum Sentence;
using enum core::Status;

inline constexpr SentenceRow kSentences[] = {
    {kNullStruct, kInvalidArgument, "{} is NULL; pass a {} made by {}_default()"},
    {kNullContext, kInvalidArgument, "context is NULL; pass one made by tessera_context_create()"},
    {kNullPlace, kInvalidArgument,
     "{} is NULL; pass the address of a variable that receives the result"},
    {kNullBuffer, kInvalidArgument,
     "buffer is NULL but capacity is {}; pass a buffer of that size, or a capacity of 0 to learn "
     "how many bytes are needed"},
    {kStructSize, kInvalidArgument,
     "size of {} is {}; {} to {} bytes are accepted (make it with {}_default(), which sets size)"},
    {kNewerStruct, kUnsupported,
     "{} uses fields that are newer than this library, version {}; set them to 0 or load a newer "
     "library"},
    {kFlags, kInvalidArgument, "flags of {} is {}; this version knows no flags: set it to 0"},
    {kReserved, kInvalidArgument,
     "reserved of {} is not 0; it must be: begin with {}_default(), which sets it"},

    {kMissing, kInvalidArgument,
     "{} has shape {} but no data (data is NULL); it is required: point data at its elements"},
    {kNegativeSize, kInvalidArgument, "{} has shape {}; a size must be 0 or more"},
    {kLargeSize, kInvalidArgument,
     "{} has shape {}; the product of its sizes (0 counted as 1) must be at most 2^48"},
    {kSpan, kInvalidArgument,
     "{} with shape {} and strides {} reaches further than 2^48 bytes or past an end of memory; "
     "strides are counted in elements: check them"},
    {kUnknownDtype, kInvalidArgument,
     "dtype of {} is {}, which this version does not know; it must be 0x2002 (float32), 0x1002 "
     "(float16), 0x1004 (bfloat16), 0x4002 (float64), 0x806 (bool), 0x801 (uint8), 0x2000 "
     "(int32) "
     "or 0x4000 (int64), that is code | bits << 8"},
    {kDtype, kInvalidArgument, "{} is {}; it must be {}: convert it"},
    {kMixedDtype, kInvalidArgument,
     "{} is {} but q is {}; q, k and v must share one dtype: convert {}"},
    {kOutDtype, kInvalidArgument,
     "out is {} but q is {}; it must have the dtype of q, or be float32: pass such a tensor"},
    {kDevice, kUnsupported,
     "{} lies on a device of type {}; it must be TESSERA_CPU (1) or TESSERA_CUDA (2): copy it "
     "there"},
    {kOneDevice, kInvalidArgument,
     "{} has device_type {} and device_id {} but q has {} and {}; all tensors of a call lie on one "
     "device: copy it there"},
    {kHostOnly, kUnsupported,
     "{} lies on a GPU (TESSERA_CUDA, 2), but this function computes on the CPU alone: copy it to "
     "host memory"},
    {kTensorFlags, kInvalidArgument,
     "flags of {} is {}; only TESSERA_READ_ONLY (1) is known: clear the others"},
    {kMisaligned, kInvalidArgument,
     "data of {} lies {} bytes past a multiple of its element size, {} bytes; it must lie on one: "
     "move it"},
    {kReadOnlyOutput, kInvalidArgument,
     "{} is marked TESSERA_READ_ONLY, but the call writes it; pass memory that may be written and "
     "clear the flag"},
    {kSelfOverlap, kInvalidArgument,
     "{} with shape {} and strides {} has several elements in the same place; an output must have "
     "each in its own: make it dense"},
    {kOverlap, kInvalidArgument,
     "{} overlaps {} in memory; what the call writes must lie apart from all else: give {} memory "
     "of its own"},

    {kShape, kInvalidArgument,
     "{} has shape {}; it must be {}, that is {} (Lq, H and D come from q, Lk and Hk from k, Dv "
     "from "
     "v, and B from q or, of packed sequences, from cu_seqlens_q)"},
    {kBroadcast, kInvalidArgument,
     "{} has shape {}; each size must be 1 or that of [B, H, Lq, Lk], here {} (with packed "
     "sequences or pages Lq and Lk are those of the longest, and larger sizes are fine)"},
    {kAlibiShape, kInvalidArgument, "alibi has shape {}; it must be [H] = {} or [B, H] = {}"},
    {kBoundariesShape, kInvalidArgument,
     "{} has shape {}; it must be [B + 1] with B 0 or more: the first row of each sequence, and "
     "the "
     "end of the last"},
    {kGradientShape, kInvalidArgument,
     "{} has shape {}; it must have the shape of {}, {}: give it those sizes"},
    {kBiasGradientShape, kInvalidArgument,
     "{} has shape {}; each size must be that of {}, {}, or 1 where that has stride 0: give it one "
     "of those"},
    {kNoDim, kInvalidArgument,
     "{} has shape {}; its last size, the head dimension, must be 1 or more"},
    {kHeads, kInvalidArgument,
     "q has {} heads and k has {}; the heads of q must be a multiple of those of k: repeat or drop "
     "heads"},
    {kNoHeads, kInvalidArgument,
     "q has {} heads and k has {}; where one has none the other must have none too"},

    {kLargeCall, kInvalidArgument,
     "the call has {} sequences, {} heads, {} queries and {} keys; at most 2^31 sequences, 2^48 "
     "rows "
     "(sequences x heads x queries) and 2^56 scores (rows x keys) are accepted: split it"},

    {kNeeds, kInvalidArgument,
     "{} is given without {}; it has a meaning only with it: pass both or neither"},
    {kTogether, kInvalidArgument,
     "{} and {} are both given; they are two ways to say where keys lie: pass one of them"},
    {kCapacity, kInvalidArgument,
     "block_table has room for {} pages a sequence and a page holds {} keys; their product must be "
     "at most 2^48"},
    {kLengthRange, kInvalidArgument,
     "{}[{}] is {}; it must be from 0 to {}, the rows that there is room for"},
    {kRowRange, kInvalidArgument,
     "cache_batch_idx[{}] is {}; k and v have {} batch rows, so it must be 0 or more and below "
     "that"},
    {kFirstBoundary, kInvalidArgument, "{}[0] is {}; packed sequences begin at row 0"},
    {kBoundaryOrder, kInvalidArgument,
     "{}[{}] is {}, below the entry before it, {}; boundaries must not decrease"},
    {kLastBoundary, kInvalidArgument,
     "{}[{}] is {}, but {} has {} rows; the last boundary may be at most that"},
    {kNoPage, kInvalidArgument,
     "k has shape {} and block_table is given; a page must hold 1 or more keys (the second size)"},
    {kPageRange, kInvalidArgument,
     "block_table[{}][{}] is {}, a page that kv_lengths makes necessary; k and v have {} pages, so "
     "it must be 0 or more and below that"},

    {kBackend, kInvalidArgument,
     "backend is {}; it must be TESSERA_BACKEND_AUTO (0), TESSERA_BACKEND_CPU (1), "
     "TESSERA_BACKEND_REFERENCE (2), TESSERA_BACKEND_STANDARD (3), TESSERA_BACKEND_CUDA (4) or "
     "TESSERA_BACKEND_EMULATOR (5)"},
    {kBackendDevice, kInvalidArgument,
     "backend is {} but q has device_type {}; TESSERA_BACKEND_CUDA (4) takes tensors on a GPU "
     "(TESSERA_CUDA, 2), TESSERA_BACKEND_AUTO (0) either, and the others those on the CPU (1): "
     "choose another backend, or copy all tensors"},
    {kForwardOnly, kUnsupported,
     "backend of the call is {}, which computes no gradients; choose TESSERA_BACKEND_AUTO (0)"},
    {kAlign, kInvalidArgument,
     "align is {}; it must be TESSERA_ALIGN_UNSET (0), TESSERA_ALIGN_TOP_LEFT (1), "
     "TESSERA_ALIGN_BOTTOM_RIGHT (2), TESSERA_ALIGN_OFFSET (3) or TESSERA_ALIGN_OFFSETS (4)"},
    {kAlignNeeded, kInvalidArgument,
     "the call has {} and {} queries but {} keys, so the diagonal must be named; set align to "
     "TESSERA_ALIGN_TOP_LEFT, TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_ALIGN_OFFSET or "
     "TESSERA_ALIGN_OFFSETS"},
    {kAlignNeededFor, kInvalidArgument,
     "the call has {} and sequence {} has {} queries but {} keys, so the diagonal must be named; "
     "set align to TESSERA_ALIGN_TOP_LEFT, TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_ALIGN_OFFSET or "
     "TESSERA_ALIGN_OFFSETS"},
    {kAlignNeededThere, kInvalidArgument,
     "the call has {} and its lengths lie on a GPU, where they are not looked at, so the diagonal "
     "must be named; set align to TESSERA_ALIGN_TOP_LEFT, TESSERA_ALIGN_BOTTOM_RIGHT, "
     "TESSERA_ALIGN_OFFSET or TESSERA_ALIGN_OFFSETS"},
    {kOffsetUnused, kInvalidArgument,
     "offset is {} but align is {}; an offset counts only with TESSERA_ALIGN_OFFSET (3): set "
     "align, or offset to 0"},
    {kOffsets, kInvalidArgument,
     "offsets is {} but align is {}; an offset for each sequence goes with TESSERA_ALIGN_OFFSETS "
     "(4): pass both or neither"},
    {kScale, kInvalidArgument,
     "scale is {}; it must be finite and 0 or more (NaN stands for 1 / sqrt(D))"},
    {kSoftcap, kInvalidArgument, "softcap is {}; it must be finite and above 0, or 0 for none"},
    {kBand, kInvalidArgument,
     "{} is {}; it must be 0 or more (TESSERA_UNBOUNDED, INT64_MAX, for all keys on that side)"},
    {kDropout, kInvalidArgument, "dropout_p is {}; it must be 0 or more and below 1"},
    {kExpression, kUnsupported,
     "{} is given, but this version evaluates no expressions; set it to 0 and pass a mask or a "
     "bias "
     "tensor instead"},
    {kStream, kUnsupported,
     "stream is set, but q lies on the CPU, which has none; set stream to NULL"},
    {kDiagnostics, kUnsupported,
     "{} is set but backend is {}; only TESSERA_BACKEND_REFERENCE (2) fills it: choose that or set "
     "{} to NULL"},
    {kBackwardFlags, kInvalidArgument,
     "flags of the backward pass is {}; only TESSERA_ACCUMULATE (1) is known: clear the others"},
    {kNoGradient, kInvalidArgument,
     "dq, dk, dv, d_bias and d_sink are all absent; at least one must be wanted: point its data at "
     "memory for it"},
    {kPagedGradient, kUnsupported,
     "k and v lie in pages (block_table), which have no gradients here; gather them into a dense "
     "tensor or packed sequences first"},
    {kStateGradient, kUnsupported,
     "the call starts from a state (state_out), which has no gradients here; pass a call over all "
     "of the keys"},
    {kNoWorkspace, kInvalidArgument,
     "workspace is NULL but workspace_bytes is {}; pass the memory, or 0 bytes to use the "
     "context's "
     "own"},
    {kSmallWorkspace, kInvalidArgument,
     "workspace_bytes is {} but this call needs {}; lend that many, or set workspace to NULL to "
     "use "
     "the context's own (tessera_plan_describe tells the bytes)"},
    {kMisalignedPointer, kInvalidArgument,
     "{} lies {} bytes past a multiple of {} bytes; it must lie on one: move it"},

    {kThreads, kInvalidArgument,
     "threads is {}; it must be from 1 to {}, or 0 for TESSERA_THREADS or all processors"},
    {kThreadsVariable, kInvalidArgument,
     "the environment variable TESSERA_THREADS is '{}'; it must be a whole number from 1 to {}: "
     "correct or unset it"},
    {kTarget, kInvalidArgument,
     "{} is '{}', a set of instructions that this library or this processor does not have; choose "
     "one of: {}"},
    {kOpenmp, kInvalidArgument,
     "the tessera_openmp of config.executor {}; tessera_openmp_parallel_for needs one from "
     "tessera_openmp_default() with the functions of a run time and as many threads as the "
     "context"},
    {kAllocator, kInvalidArgument,
     "allocator has no {}; it must have both allocate and release, or neither"},

    {kAttentionFlags, kInvalidArgument,
     "flags of desc is {}; only TESSERA_BATCH_INVARIANT (2) is known: clear the others"},
    {kNotInvariant, kUnsupported,
     "flags has TESSERA_BATCH_INVARIANT but backend is TESSERA_BACKEND_STANDARD, which is there "
     "for "
     "comparison: choose another backend or clear the flag"},

    {kStates, kInvalidArgument,
     "states is NULL but count is {}; point states at that many, or set count to 0"},
    {kOtherShape, kInvalidArgument,
     "{} has shape {}; it must be {}, that is {}, to go with {}: reshape or slice it"},
    {kOtherDtype, kInvalidArgument,
     "{} is {} but {} is {}; the two must share one dtype: convert one of them"},
    {kTableDtype, kInvalidArgument, "{} is {}; it must be float32 or, as {} is, {}: convert it"},
    {kRotaryDim, kInvalidArgument,
     "cos has shape {} and {} has a head dimension of {}; cos must be [positions, R / 2], and R, "
     "the elements that turn, from 2 to the head dimension: drop columns of cos and sin"},
    {kRotaryLayout, kInvalidArgument,
     "layout is {}; it must be TESSERA_ROTARY_HALVES (0) or TESSERA_ROTARY_INTERLEAVED (1)"},
    {kTwoPositions, kInvalidArgument,
     "offsets and positions are both given; they are two ways to say where rows are: pass one of "
     "them"},
    {kPositionRange, kInvalidArgument,
     "row {} of sequence {} is at position {}; cos and sin have {} positions, so it must be 0 or "
     "more and below that"},
    {kCacheFull, kInvalidArgument,
     "sequence {} has {} keys and is given {} more, but its cache has room for {}; pass a larger "
     "cache, or fewer keys (nothing was written for any sequence)"},
    {kCacheSmall, kInvalidArgument,
     "{} sequences are given {} keys each, but the whole cache has {} places; pass a larger cache, "
     "or fewer keys"},
    {kNewKeyPage, kInvalidArgument,
     "block_table[{}][{}] is {}, a page that new keys go to; the cache has {} pages, so it must be "
     "0 or more and below that"},
    {kSamePlace, kInvalidArgument,
     "sequences {} and {} would both put new keys into row or page {} of the cache at {}; each "
     "place can hold one key: give them rows or pages of their own"},

    {kCpuLacks, kUnsupported,
     "{} does not do {}; use TESSERA_BACKEND_AUTO, which takes a backend that does"},
    {kWorkspaceMemory, kOutOfMemory,
     "the call needs a workspace of {} bytes, which could not be allocated; free memory, or use "
     "fewer threads"},

    {kNoMemory, kOutOfMemory,
     "memory ran out; free some, use fewer threads, or lend a workspace of the size that "
     "tessera_plan_describe tells"},
    {kUnexpected, kInternal,
     "an unexpected exception reached the C interface: {}; if it is not from a function that you "
     "lent, please report it"},
};
}  // namespace rows

// Where the chapters of the table begin.
struct Chapter {
  Sentence first;
  std::string_view title;
};

inline constexpr Chapter kChapters[] = {
    {Sentence::kNullStruct, "Structs and pointers"},
    {Sentence::kMissing, "Tensors"},
    {Sentence::kShape, "Shapes"},
    {Sentence::kNeeds, "Lengths, packed sequences, pages"},
    {Sentence::kBackend, "Options"},
    {Sentence::kThreads, "Contexts"},
    {Sentence::kAttentionFlags, "Flags of an attention call"},
    {Sentence::kStates, "States, rotary positions, caches"},
    {Sentence::kCpuLacks, "Backends and memory"},
};

constexpr const SentenceRow& row_of(Sentence id) { return rows::kSentences[std::size_t(id)]; }

constexpr bool rows_are_in_order() {
  std::size_t i = 0;
  for (const SentenceRow& row : rows::kSentences)
    if (std::size_t(row.id) != i++) return false;
  return i == std::size_t(Sentence::kUnexpected) + 1;
}
static_assert(rows_are_in_order(), "one row for each Sentence, in the order of the enumeration");

}  // namespace tessera::api
