#include "plan/parts.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace tessera::plan {
namespace {

using core::Problem;

// A score may leave the range of float32, or become subnormal, before the scale brings it back.
constexpr float kSmallScale = 0x1p-20f, kLargeScale = 0x1p20f;

}  // namespace

std::int64_t useful_workers(const Plan& plan, double work, double of_a_worker) {
  const auto by_work = std::int64_t(std::min(work / of_a_worker, 1e6)) + 1;
  return std::max<std::int64_t>(1, std::min({plan.device.threads, plan.tasks, by_work}));
}

const char* why_not_bfloat16(const Problem& p, const Device& device) {
  if (p.q.dtype != core::DType::kBfloat16) return "q, k and v are not bfloat16";
  if (device.bfloat16 == Arithmetic::kFloat32) return "the target multiplies float32 alone";
  if (p.dropout.p != 0) return "dropout removes pairs from weights of float32";
  if (!(p.scale >= kSmallScale && p.scale <= kLargeScale))
    return "with this scale products of bfloat16 could leave the range of float32";
  return nullptr;
}

void decide_arithmetic(Plan& plan, const char* why_float32) {
  plan.why_arithmetic = why_float32 != nullptr ? why_float32 : "q, k and v are bfloat16";
  plan.arithmetic = why_float32 != nullptr ? Arithmetic::kFloat32 : plan.device.bfloat16;
}

Plan plan_reference(const Problem& p, const Device& device, const char* why) {
  Plan plan;
  plan.backend = Backend::kReference;
  plan.device = device;
  plan.tile_keys = p.keys;
  plan.tasks = p.batch * p.heads * p.queries;
  plan.why_backend = why;
  plan.why_packing = "k and v are read as they lie";
  plan.why_arithmetic = "the reference computes in double precision";
  return plan;
}

void refuse_missing(const char* backend, const char* missing) {
  core::fail(core::Status::kUnsupported,
             std::string(backend) + " does not do " + missing +
                 "; use TESSERA_BACKEND_AUTO, which takes a backend that does");
}

}  // namespace tessera::plan
