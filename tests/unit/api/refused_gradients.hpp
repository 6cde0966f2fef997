// Backward passes that are refused.
#pragma once
#include "unit/api/refused_structs.hpp"
#include "unit/api/refused_tensors.hpp"

namespace tessera::test {

inline void drop(tessera_tensor& t) { t = tessera_tensor_default(); }

// The subject's tensor d_bias, for a bias that is expanded over heads.
inline void give_bias(Subject& s, Sizes gradient) {
  s.desc.bias = s.hold(std::vector<float>(2 * 4 * 3 * 3), {2, 4, 3, 3});
  s.desc.bias.stride[1] = 0;
  s.backward.d_bias = s.poisoned(gradient);
}

inline const std::vector<double> kTermNorms(10);

inline const Refusals kRefusedGradients = {
    {Sentence::kNullStruct,
     "no backward desc",
     {},
     [](const Subject& s) {
       return answer_of(s, [](tessera_context* context, tessera_error* error) {
         return tessera_attention_backward(context, nullptr, error);
       });
     }},
    {Sentence::kNullStruct,
     "no call to differentiate",
     {},
     [](const Subject& s) {
       return answer_of(s, [&](tessera_context* context, tessera_error* error) {
         return tessera_attention_backward(context, &s.backward, error);
       });
     }},
    {Sentence::kNullContext,
     "no context for gradients",
     {},
     [](const Subject& s) {
       return answer_of(s, [&](tessera_context*, tessera_error* error) {
         tessera_attention_backward_desc desc = s.backward;
         desc.forward = &s.desc;
         return tessera_attention_backward(nullptr, &desc, error);
       });
     }},
    {Sentence::kNullBuffer,
     "no buffer for a plan of the backward pass",
     {},
     [](const Subject& s) {
       return answer_of(s, [&](tessera_context* context, tessera_error* error) {
         return tessera_backward_plan_describe(context, &s.backward, nullptr, 10, nullptr, error);
       });
     }},
    {Sentence::kStructSize, "a backward desc without its size",
     [](Subject& s) { s.backward.size = 0; }, differentiate},
    {Sentence::kStructSize, "a call without its size", [](Subject& s) { s.desc.size = 0; },
     differentiate},
    {Sentence::kBackwardFlags, "a flag of tomorrow", [](Subject& s) { s.backward.flags = 2; },
     differentiate},
    {Sentence::kAttentionFlags, "accumulating in the flags of the call",
     [](Subject& s) { s.desc.flags = TESSERA_ACCUMULATE; }, differentiate},
    {Sentence::kScale, "the call itself is wrong", [](Subject& s) { s.desc.scale = -1; },
     differentiate},
    {Sentence::kNoWorkspace, "bytes without memory for gradients",
     [](Subject& s) { s.backward.workspace_bytes = 64; }, differentiate},
    {Sentence::kMisalignedPointer, "workspace of gradients beside its line",
     [](Subject& s) {
       s.backward.workspace = s.workspace() + 32;
       s.backward.workspace_bytes = 65536 - 32;
     },
     differentiate},

    {Sentence::kDiagnostics, "term_norms of the CPU backend",
     [](Subject& s) { s.backward.term_norms = static_cast<double*>(s.keep(kTermNorms)); },
     differentiate},
    {Sentence::kOverlap, "term_norms on dq",
     [](Subject& s) {
       s.desc.backend = TESSERA_BACKEND_REFERENCE;
       s.backward.term_norms = static_cast<double*>(s.backward.dq.data);
     },
     differentiate},

    {Sentence::kMissing, "no out to read", [](Subject& s) { s.desc.out.data = nullptr; },
     differentiate},
    {Sentence::kMissing, "no lse to read", [](Subject& s) { drop(s.desc.lse); }, differentiate},
    {Sentence::kMissing, "no d_out", [](Subject& s) { s.backward.d_out.data = nullptr; },
     differentiate},
    {Sentence::kNoGradient, "nothing is wanted",
     [](Subject& s) {
       drop(s.backward.dq);
       drop(s.backward.dk);
       drop(s.backward.dv);
     },
     differentiate},
    {Sentence::kNeeds, "d_bias without a bias",
     [](Subject& s) { s.backward.d_bias = s.poisoned({2, 4, 3, 3}); }, differentiate},
    {Sentence::kNeeds, "d_sink without a sink",
     [](Subject& s) { s.backward.d_sink = s.poisoned({4}); }, differentiate},
    {Sentence::kPagedGradient, "gradients of pages", [](Subject& s) { s.page(); }, differentiate},
    {Sentence::kStateGradient, "gradients of a call that starts from a state",
     [](Subject& s) {
       s.desc.state_out = s.hold(std::vector<float>(120), {2, 3, 4, 5});
       s.desc.state_lse = s.hold(std::vector<float>(24), {2, 4, 3});
     },
     differentiate},

    {Sentence::kGradientShape, "d_out of another shape",
     [](Subject& s) { s.backward.d_out.shape[1] = 2; }, differentiate},
    {Sentence::kGradientShape, "d_lse as [B, Lq, H]",
     [](Subject& s) { s.backward.d_lse = s.hold(std::vector<float>(24), {2, 3, 4}); },
     differentiate},
    {Sentence::kGradientShape, "dk for each head of q",
     [](Subject& s) { s.backward.dk = s.poisoned({2, 3, 4, 8}); }, differentiate},
    {Sentence::kGradientShape, "d_sink for each batch",
     [](Subject& s) {
       s.desc.sink = s.hold(std::vector<float>(4), {4});
       s.backward.d_sink = s.poisoned({2, 4});
     },
     differentiate},
    {Sentence::kBiasGradientShape, "d_bias summed over what the bias distinguishes",
     [](Subject& s) { give_bias(s, {1, 4, 3, 3}); }, differentiate},
    {Sentence::kBiasGradientShape, "d_bias wider than the bias",
     [](Subject& s) { give_bias(s, {2, 8, 3, 3}); }, differentiate},

    {Sentence::kDtype, "d_out of integers",
     [](Subject& s) { s.backward.d_out.dtype = TESSERA_INT32; }, differentiate},
    {Sentence::kDtype, "dq of float16 where q is float32",
     [](Subject& s) { s.backward.dq.dtype = TESSERA_FLOAT16; }, differentiate},
    {Sentence::kDtype, "d_out of bfloat16 where q is float32",
     [](Subject& s) { s.backward.d_out.dtype = TESSERA_BFLOAT16; }, differentiate},
    {Sentence::kDtype, "d_lse of float64 where q is float32",
     [](Subject& s) {
       s.backward.d_lse = dense(s.keep(std::vector<double>(24)), TESSERA_FLOAT64, {2, 4, 3});
     },
     differentiate},
    {Sentence::kHostOnly, "dv on CUDA",
     [](Subject& s) { s.backward.dv.device_type = TESSERA_CUDA; }, differentiate},
    {Sentence::kReadOnlyOutput, "dq", [](Subject& s) { s.backward.dq.flags = TESSERA_READ_ONLY; },
     differentiate},
    {Sentence::kSelfOverlap, "dk expanded as k may be",
     [](Subject& s) { s.desc.k.stride[2] = s.backward.dk.stride[2] = 0; }, differentiate},
    {Sentence::kOverlap, "dq on q", [](Subject& s) { s.backward.dq.data = s.desc.q.data; },
     differentiate},
    {Sentence::kOverlap, "dv on out", [](Subject& s) { s.backward.dv.data = s.desc.out.data; },
     differentiate},
    {Sentence::kOverlap, "dk on dv", [](Subject& s) { s.backward.dv.data = s.backward.dk.data; },
     differentiate},
    {Sentence::kOverlap, "dv on the last element of d_out",
     [](Subject& s) {
       s.backward.dv.data = static_cast<float*>(s.backward.d_out.data) + 2 * 3 * 4 * 5 - 1;
     },
     differentiate},
    {Sentence::kOverlap, "dq on the workspace",
     [](Subject& s) {
       s.backward.workspace = s.backward.dq.data = s.workspace();
       s.backward.workspace_bytes = 65536;
     },
     differentiate},

    {Sentence::kSmallWorkspace, "too few bytes for gradients",
     [](Subject& s) {
       s.backward.workspace = s.workspace();
       s.backward.workspace_bytes = 64;
     },
     differentiate},
    {Sentence::kCpuLacks, "gradients of sequences that share rows of k and v",
     [](Subject& s) {
       s.desc.backend = TESSERA_BACKEND_CPU;
       s.desc.cache_batch_idx =
           tessera_tensor_dense(s.keep(std::vector<std::int32_t>(2)), TESSERA_INT32, 2, 1, 1, 1);
     },
     differentiate},
    {Sentence::kCpuLacks, "gradients in standard attention",
     [](Subject& s) { s.desc.backend = TESSERA_BACKEND_STANDARD; }, differentiate},
};

}  // namespace tessera::test
