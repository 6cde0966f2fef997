// The C interface as the verbs use it: a context, a descriptor, refusals as Failure.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tools/tessera/inputs.hpp"
#include "tools/tessera/options.hpp"

namespace tessera::tool {

struct ContextDeleter {
  void operator()(tessera_context* context) const { tessera_context_destroy(context); }
};
using Context = std::unique_ptr<tessera_context, ContextDeleter>;

// threads as in AttentionOptions.
Context make_context(int threads);

// Throws Failure for a status that is not TESSERA_OK.
void check(tessera_status status, const tessera_error& error);

// The descriptor of a call; out and lse are the caller's to set.
tessera_attention_desc describe(const Inputs& inputs, const AttentionOptions& options);

// Dense results that fit: out [B, Lq, H, Dv] of q's dtype, lse [B, H, Lq] of lse_dtype.
struct Results {
  Array out, lse;
};
Results make_results(const Shape& shape, core::DType dtype, Fill fill = Fill::kData);

// Computes desc with out and lse put into it. An absent lse is not computed.
void attend(const Context& context, tessera_attention_desc desc, const Results& results);

// A text of unknown size: asked for once to learn the size, once more for the text.
using Write = std::function<tessera_status(char*, std::uint64_t, std::uint64_t*, tessera_error*)>;
std::string text_of(const Write& write);

// JSON texts of tessera_plan_describe, tessera_context_describe and tessera_gpus_describe.
std::string plan_json(const Context& context, const tessera_attention_desc& desc);
std::string context_json(const Context& context);
std::string gpus_json();

}  // namespace tessera::tool
