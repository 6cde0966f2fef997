// The description of a call, checked and resolved. Every refusal is a row of sentences.hpp, and
// nothing that the call describes is written here.
#pragma once
#include <cstdint>

#include "core/gradients.hpp"
#include "core/problem.hpp"
#include "plan/plan.hpp"
#include "tessera/tessera.h"

namespace tessera::api {

// The device that the tensors of a call lie on, in DLPack's numbers.
struct Where {
  std::int32_t type = TESSERA_CPU, id = 0;

  bool on_gpu() const { return type == TESSERA_CUDA; }
};

// Memory and orders that belong to a call but not to the problem.
struct Call {
  core::Problem problem;
  plan::Backend backend = plan::Backend::kAuto;  // kCuda, not kAuto, where the tensors are on a GPU
  Where where;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::uint64_t workspace_bytes = 0;
  double* score_max = nullptr;
};

// The same of the backward pass; the problem's out and lse are read.
struct BackwardCall {
  core::Problem problem;
  core::Gradients gradients;
  plan::Backend backend = plan::Backend::kAuto;
  void* workspace = nullptr;
  std::uint64_t workspace_bytes = 0;
  double* term_norms = nullptr;
};

// To describe a plan, q, k, v, out and what arrives from above need no data.
enum class Purpose { kRun, kDescribe };

// The alignment that a workspace must have.
inline constexpr std::int64_t kWorkspaceAlignment = 64;

Call convert(const tessera_attention_desc& desc, Purpose purpose);
// `forward` is what desc.forward points at, in this version of its struct.
BackwardCall convert(const tessera_attention_backward_desc& desc,
                     const tessera_attention_desc& forward, Purpose purpose);

}  // namespace tessera::api
