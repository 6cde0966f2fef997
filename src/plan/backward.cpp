// The plan of the backward pass.
#include "core/error.hpp"
#include "plan/plan.hpp"

namespace tessera::plan {

Plan make_backward_plan(const core::Problem& p, const core::Gradients&, Backend wanted,
                        const Device& device) {
  if (wanted == Backend::kCpu || wanted == Backend::kStandard)
    core::fail(core::Status::kUnsupported,
               "the CPU backend does not do gradients yet; use TESSERA_BACKEND_AUTO or "
               "TESSERA_BACKEND_REFERENCE, which does");
  Plan plan;
  plan.device = device;
  plan.tile_keys = p.keys;
  plan.tasks = p.batch * p.heads * p.queries;
  plan.why_backend = wanted == Backend::kReference ? "asked for" : "gradients";
  plan.why_packing = "k and v are read as they lie";
  return plan;
}

}  // namespace tessera::plan
