// Structs and pointers that are refused.
#pragma once
#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

// The answer of a function of the C interface that gets a context, if it has one, and an error.
template <class Function> Answer answer_of(const Subject& s, const Function& function) {
  tessera_error error = tessera_error_default();
  const TemporaryContext temporary(s.config);
  const tessera_status status = function(temporary.context, &error);
  return {status, error.message};
}

// The subject's description with bytes of a newer version behind it.
inline Answer attend_as_newer_caller(const Subject& s, std::byte beyond) {
  struct Newer {
    tessera_attention_desc desc;
    std::byte rest[8];
  } newer{s.desc, {}};
  newer.desc.size = sizeof newer;
  newer.rest[7] = beyond;
  return answer_of(s, [&](tessera_context* context, tessera_error* error) {
    return tessera_attention(context, &newer.desc, error);
  });
}

inline const Refusals kRefusedStructs = {
    {Sentence::kNullStruct,
     "no desc",
     {},
     [](const Subject& s) {
       return answer_of(s, [](tessera_context* context, tessera_error* error) {
         return tessera_attention(context, nullptr, error);
       });
     }},
    {Sentence::kNullContext,
     "no context for attention",
     {},
     [](const Subject& s) {
       return answer_of(s, [&](tessera_context*, tessera_error* error) {
         return tessera_attention(nullptr, &s.desc, error);
       });
     }},
    {Sentence::kNullContext,
     "no context to describe",
     {},
     [](const Subject& s) {
       return answer_of(s, [](tessera_context*, tessera_error* error) {
         return tessera_context_describe(nullptr, nullptr, 0, nullptr, error);
       });
     }},
    {Sentence::kNullPlace,
     "nowhere to put a context",
     {},
     [](const Subject& s) {
       return answer_of(s, [](tessera_context*, tessera_error* error) {
         return tessera_context_create(nullptr, nullptr, error);
       });
     }},
    {Sentence::kNullBuffer,
     "no buffer for a plan",
     {},
     [](const Subject& s) {
       return answer_of(s, [&](tessera_context* context, tessera_error* error) {
         return tessera_plan_describe(context, &s.desc, nullptr, 10, nullptr, error);
       });
     }},
    {Sentence::kNullBuffer,
     "no buffer for a context",
     {},
     [](const Subject& s) {
       return answer_of(s, [](tessera_context* context, tessera_error* error) {
         return tessera_context_describe(context, nullptr, UINT64_MAX, nullptr, error);
       });
     }},
    {Sentence::kNullBuffer,
     "no buffer for GPUs",
     {},
     [](const Subject& s) {
       return answer_of(s, [](tessera_context*, tessera_error* error) {
         return tessera_gpus_describe(nullptr, 1, nullptr, error);
       });
     }},
    {Sentence::kStructSize, "size was never set", [](Subject& s) { s.desc.size = 0; }},
    {Sentence::kStructSize, "a byte less than the first version",
     [](Subject& s) { s.desc.size = 2207; }},
    {Sentence::kStructSize, "size is garbage", [](Subject& s) { s.desc.size = 0xFFFFFFF0u; }},
    {Sentence::kStructSize, "size of config", [](Subject& s) { s.config.size = 8; }},
    {Sentence::kNewerStruct,
     "a field of tomorrow is set",
     {},
     [](const Subject& s) { return attend_as_newer_caller(s, std::byte{1}); }},
    {Sentence::kAttentionFlags, "flags of desc", [](Subject& s) { s.desc.flags = 5; }},
    {Sentence::kNotInvariant, "an invariant call of standard attention",
     [](Subject& s) {
       s.desc.flags = TESSERA_BATCH_INVARIANT;
       s.desc.backend = TESSERA_BACKEND_STANDARD;
     }},
    {Sentence::kFlags, "flags of config", [](Subject& s) { s.config.flags = 0x80000000u; }},
    {Sentence::kReserved, "reserved of config", [](Subject& s) { s.config.reserved = 1; }},
    {Sentence::kReserved, "reserved of q", [](Subject& s) { s.desc.q.reserved[0] = 1; }},
    {Sentence::kReserved, "reserved of lse", [](Subject& s) { s.desc.lse.reserved[1] = 1; }},
};

}  // namespace tessera::test
