// Options that are refused.
#pragma once
#include <cmath>

#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

inline const Refusals kRefusedOptions = {
    {Sentence::kBackend, "backend 6", [](Subject& s) { s.desc.backend = 6; }},
    {Sentence::kBackendDevice, "CUDA on the CPU",
     [](Subject& s) { s.desc.backend = TESSERA_BACKEND_CUDA; }},
    {Sentence::kBackendDevice, "the emulator on a GPU",
     [](Subject& s) {
       s.put_on_gpu();
       s.desc.backend = TESSERA_BACKEND_EMULATOR;
     }},
    {Sentence::kForwardOnly, "gradients in the emulator",
     [](Subject& s) { s.desc.backend = TESSERA_BACKEND_EMULATOR; }, differentiate},
    {Sentence::kHostOnly, "gradients on a GPU", [](Subject& s) { s.put_on_gpu(); }, differentiate},
    {Sentence::kAlignNeededThere, "causal, with lengths on a GPU",
     [](Subject& s) {
       s.desc.kv_lengths = s.hold(std::vector<std::int32_t>{3, 3}, {2});
       s.desc.right = 0;
       s.put_on_gpu();
     }},
    {Sentence::kAlign, "align 5", [](Subject& s) { s.desc.align = 5; }},
    {Sentence::kAlignNeeded, "causal, with more keys than queries",
     [](Subject& s) {
       s.desc.right = 0;
       s.desc.q.shape[1] = s.desc.out.shape[1] = s.desc.lse.shape[2] = 2;
     }},
    {Sentence::kAlignNeeded, "a left window, with more keys than queries",
     [](Subject& s) {
       s.desc.left = 100;
       s.desc.q.shape[1] = s.desc.out.shape[1] = s.desc.lse.shape[2] = 2;
     }},
    {Sentence::kAlignNeeded, "alibi, with more keys than queries",
     [](Subject& s) {
       s.desc.alibi = s.hold(std::vector<float>(4), {4});
       s.desc.q.shape[1] = s.desc.out.shape[1] = s.desc.lse.shape[2] = 2;
     }},
    {Sentence::kAlignNeededFor, "causal, with a shorter sequence of keys",
     [](Subject& s) {
       s.desc.right = 0;
       s.desc.kv_lengths = s.hold(std::vector<std::int32_t>{3, 2}, {2});
     }},
    {Sentence::kAlignNeededFor, "causal, with packed sequences that differ",
     [](Subject& s) {
       s.pack_queries();
       s.pack_keys();
       s.desc.cu_seqlens_k = s.hold(std::vector<std::int32_t>{0, 2, 3}, {3});
       s.desc.right = 0;
     }},
    {Sentence::kAlignNeededFor, "alibi over pages",
     [](Subject& s) {
       s.page();
       s.desc.alibi = s.hold(std::vector<float>(8), {2, 4});
     }},
    {Sentence::kOffsetUnused, "offset without align", [](Subject& s) { s.desc.offset = 3; }},
    {Sentence::kOffsetUnused, "offset and bottom-right",
     [](Subject& s) {
       s.desc.align = TESSERA_ALIGN_BOTTOM_RIGHT;
       s.desc.offset = INT64_MIN;
     }},
    {Sentence::kOffsets, "offsets without align",
     [](Subject& s) { s.desc.offsets = s.hold(std::vector<std::int32_t>{1, 2}, {2}); }},
    {Sentence::kOffsets, "align without offsets",
     [](Subject& s) { s.desc.align = TESSERA_ALIGN_OFFSETS; }},

    {Sentence::kScale, "negative scale", [](Subject& s) { s.desc.scale = -0.125f; }},
    {Sentence::kScale, "infinite scale", [](Subject& s) { s.desc.scale = INFINITY; }},
    {Sentence::kSoftcap, "negative cap", [](Subject& s) { s.desc.softcap = -1; }},
    {Sentence::kSoftcap, "infinite cap", [](Subject& s) { s.desc.softcap = INFINITY; }},
    {Sentence::kSoftcap, "cap that is no number", [](Subject& s) { s.desc.softcap = NAN; }},
    {Sentence::kBand, "left of -1", [](Subject& s) { s.desc.left = -1; }},
    {Sentence::kBand, "lowest right", [](Subject& s) { s.desc.right = INT64_MIN; }},
    {Sentence::kDropout, "all dropped", [](Subject& s) { s.desc.dropout_p = 1; }},
    {Sentence::kDropout, "less than none dropped", [](Subject& s) { s.desc.dropout_p = -0.1f; }},
    {Sentence::kDropout, "p that is no number", [](Subject& s) { s.desc.dropout_p = NAN; }},

    {Sentence::kExpression, "mask expression", [](Subject& s) { s.desc.mask_expr = "q >= kv"; }},
    {Sentence::kExpression, "score expression", [](Subject& s) { s.desc.score_expr = "score"; }},
    {Sentence::kExpression, "bindings", [](Subject& s) { s.desc.binding_count = 1; }},
    {Sentence::kStream, "stream", [](Subject& s) { s.desc.stream = &s; }},
    {Sentence::kDiagnostics, "score_max of the CPU backend",
     [](Subject& s) { s.desc.score_max = static_cast<double*>(s.keep(std::vector<double>(1))); }},
    {Sentence::kNoWorkspace, "bytes without memory",
     [](Subject& s) { s.desc.workspace_bytes = 64; }},
    {Sentence::kSmallWorkspace, "too few bytes",
     [](Subject& s) {
       s.desc.workspace = s.workspace();
       s.desc.workspace_bytes = 64;
     }},
    {Sentence::kMisalignedPointer, "workspace beside its line",
     [](Subject& s) {
       s.desc.workspace = s.workspace() + 32;
       s.desc.workspace_bytes = 65536 - 32;
     }},
    {Sentence::kMisalignedPointer, "score_max beside its element",
     [](Subject& s) {
       s.desc.backend = TESSERA_BACKEND_REFERENCE;
       s.desc.score_max = reinterpret_cast<double*>(s.workspace() + 4);
     }},

    {Sentence::kCpuLacks, "dropout in standard attention",
     [](Subject& s) {
       s.desc.backend = TESSERA_BACKEND_STANDARD;
       s.desc.dropout_p = 0.5f;
     }},
    {Sentence::kCpuLacks, "pages in standard attention",
     [](Subject& s) {
       s.page();
       s.desc.backend = TESSERA_BACKEND_STANDARD;
     }},
};

}  // namespace tessera::test
