#include "api/fields.hpp"

#include <cstddef>
#include <iterator>

namespace tessera::api {
namespace {

using core::DType;
using enum Letter;
using P = core::Problem;
using A = tessera_attention_desc;

constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16,
                                 DType::kFloat64};
constexpr DType kBiasTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
constexpr DType kMaskTypes[] = {DType::kBool, DType::kUint8};
constexpr DType kLengthTypes[] = {DType::kInt32, DType::kInt64};
constexpr DType kInt32Types[] = {DType::kInt32};
constexpr DType kFloat32Types[] = {DType::kFloat32};
constexpr DType kLseTypes[] = {DType::kFloat32, DType::kFloat64};

constexpr Types kTypes[] = {
    {"float32, float16, bfloat16 or float64", kFloatTypes},
    {"float32, float16 or bfloat16", kBiasTypes},
    {"bool or uint8", kMaskTypes},
    {"int32 or int64", kLengthTypes},
    {"int32", kInt32Types},
    {"float32", kFloat32Types},
    {"float32, or float64 where q is float64", kLseTypes},
};

constexpr Letters kQueryShape{kBq, kLq, kH, kD}, kKeyShape{kBk, kLk, kHk, kD};
constexpr Letters kValueShape{kBk, kLk, kHk, kDv}, kOutShape{kBq, kLq, kH, kDv};
constexpr Letters kRowShape{kBq, kH, kLq, kOne}, kPairShape{kB, kH, kLq, kLk};
constexpr Letters kHeadShape{kH, kOne, kOne, kOne}, kBatchShape{kB, kOne, kOne, kOne};
constexpr Letters kTableShape{kB, kFree, kOne, kOne}, kBoundaryShape{kFree, kOne, kOne, kOne};
constexpr Letters kSlopeShape{kB, kH, kOne, kOne};

constexpr Field kFields[] = {
    {"q", &A::q, &P::q, TypeSet::kFloats, kQueryShape},
    {"k", &A::k, &P::k, TypeSet::kFloats, kKeyShape},
    {"v", &A::v, &P::v, TypeSet::kFloats, kValueShape},
    {"out", &A::out, &P::out, TypeSet::kFloats, kOutShape, Rule::kLetters, Use::kOutput},
    {"lse", &A::lse, &P::lse, TypeSet::kLse, kRowShape, Rule::kLetters, Use::kOutput},
    {"offsets", &A::offsets, &P::offsets, TypeSet::kLengths, kBatchShape},
    {"mask", &A::mask, &P::mask, TypeSet::kMask, kPairShape, Rule::kBroadcast},
    {"bias", &A::bias, &P::bias, TypeSet::kBias, kPairShape, Rule::kBroadcast},
    {"alibi", &A::alibi, &P::alibi, TypeSet::kFloat32, kSlopeShape, Rule::kAlibi},
    {"sink", &A::sink, &P::sink, TypeSet::kFloat32, kHeadShape},
    {"kv_lengths", &A::kv_lengths, &P::kv_lengths, TypeSet::kLengths, kBatchShape},
    {"kv_starts", &A::kv_starts, &P::kv_starts, TypeSet::kLengths, kBatchShape},
    {"cache_batch_idx", &A::cache_batch_idx, &P::cache_batch_idx, TypeSet::kInt32, kBatchShape},
    {"cu_seqlens_q", &A::cu_seqlens_q, &P::cu_seqlens_q, TypeSet::kLengths, kBoundaryShape,
     Rule::kBoundaries},
    {"cu_seqlens_k", &A::cu_seqlens_k, &P::cu_seqlens_k, TypeSet::kLengths, kBoundaryShape,
     Rule::kBoundaries},
    {"seqused_q", &A::seqused_q, &P::seqused_q, TypeSet::kLengths, kBatchShape},
    {"seqused_k", &A::seqused_k, &P::seqused_k, TypeSet::kLengths, kBatchShape},
    {"block_table", &A::block_table, &P::block_table, TypeSet::kInt32, kTableShape},
    {"state_out", &A::state_out, &P::state_out, TypeSet::kFloat32, kOutShape},
    {"state_lse", &A::state_lse, &P::state_lse, TypeSet::kFloat32, kRowShape},
};

static_assert(std::size(kFields) <= kMostFields);

}  // namespace

const Types& types_of(TypeSet set) { return kTypes[std::size_t(set)]; }

std::span<const Field> fields() { return kFields; }

}  // namespace tessera::api
