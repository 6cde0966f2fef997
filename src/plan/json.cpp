#include <cmath>
#include <span>
#include <string>

#include "core/json.hpp"
#include "plan/gpu.hpp"
#include "plan/plan.hpp"

namespace tessera::plan {
namespace {

using core::Json;

constexpr std::string_view kBackendNames[] = {"auto",     "cpu",  "reference",
                                              "standard", "cuda", "emulator"};
constexpr std::string_view kPackingNames[] = {"none", "head", "block"};
constexpr std::string_view kArithmeticNames[] = {"float32", "bfloat16 pairs", "bfloat16 tiles"};
constexpr std::string_view kKernelNames[] = {"tiled", "decode"};
constexpr std::string_view kAlignmentNames[] = {"top-left", "bottom-right", "offset", "offsets"};

Json bound(std::int64_t keys) {
  return keys >= core::Band::kUnbounded ? Json("unbounded") : Json(keys);
}

using Named = std::pair<const char*, const core::Tensor&>;

Json present_among(std::span<const Named> all) {
  Json names = Json::array();
  for (const auto& [name, tensor] : all)
    if (tensor.present()) names.push_back(name);
  return names;
}

// The options that are present, by their names in tessera_attention_desc.
Json options(const core::Problem& p) {
  const Named all[] = {
      {"lse", p.lse},
      {"mask", p.mask},
      {"bias", p.bias},
      {"alibi", p.alibi},
      {"sink", p.sink},
      {"kv_lengths", p.kv_lengths},
      {"kv_starts", p.kv_starts},
      {"cache_batch_idx", p.cache_batch_idx},
      {"cu_seqlens_q", p.cu_seqlens_q},
      {"cu_seqlens_k", p.cu_seqlens_k},
      {"seqused_q", p.seqused_q},
      {"seqused_k", p.seqused_k},
      {"block_table", p.block_table},
      {"state_out", p.state_out},
  };
  return present_among(all);
}

Json problem_json(const core::Problem& p) {
  const auto alignment = kAlignmentNames[std::size_t(p.alignment)];
  Json json{{"dtype", core::name_of(p.q.dtype)},
            {"batch", p.batch},
            {"queries", p.queries},
            {"keys", p.keys},
            {"heads", p.heads},
            {"kv_heads", p.kv_heads},
            {"dim", p.dim},
            {"value_dim", p.value_dim},
            {"scale", float(p.scale)},
            {"softcap", p.softcap},
            {"left", bound(p.left)},
            {"right", bound(p.right)},
            {"alignment", alignment},
            {"options", options(p)}};
  if (p.alignment == core::Alignment::kOffset) json.add("offset", p.offset);
  if (p.dropout.p != 0) json.add("dropout_p", p.dropout.p);
  if (p.batch_invariant) json.add("batch_invariant", true);
  return json;
}

Json plan_json(const Plan& plan, const core::Problem& problem) {
  const bool tiled = plan.backend != Backend::kReference;
  return {{"backend", kBackendNames[std::size_t(plan.backend)]},
          {"why_backend", plan.why_backend},
          {"target", tiled ? plan.device.target : std::string_view("double precision")},
          {"arithmetic",
           tiled ? kArithmeticNames[std::size_t(plan.arithmetic)] : std::string_view("double")},
          {"why_arithmetic", plan.why_arithmetic},
          {"kernel", kKernelNames[std::size_t(plan.kernel)]},
          {"why_kernel", plan.why_kernel},
          {"splits", plan.splits},
          {"workers", plan.workers},
          {"tasks", plan.tasks},
          {"task_queries", plan.task_queries},
          {"task_order", plan.listed > 0 ? "longest sequence first" : "head by head"},
          {"tile_queries", plan.tile_queries},
          {"tile_keys", plan.tile_keys},
          {"packing", kPackingNames[std::size_t(plan.packing)]},
          {"why_packing", plan.why_packing},
          {"worker_bytes", plan.worker_bytes},
          {"shared_bytes", plan.shared_bytes},
          {"workspace_bytes", plan.workspace_bytes()},
          {"problem", problem_json(problem)}};
}

}  // namespace

std::string to_json(const core::Problem& problem) { return problem_json(problem).text(); }

std::string to_json(const Plan& plan, const core::Problem& problem) {
  return plan_json(plan, problem).text();
}

std::string to_json(const GpuPlan& plan, const core::Problem& problem, const Gpu& gpu) {
  Json grid = Json::array();
  for (const int size : {plan.grid.x, plan.grid.y, plan.grid.z}) grid.push_back(size);
  const Json json{{"backend", gpu.emulated ? "emulator" : "cuda"},
                  {"target", gpu.name},
                  {"arch", gpu.arch},
                  {"kernel", name_of(plan.kernel)},
                  {"why_kernel", plan.why_kernel},
                  {"grid", grid},
                  {"threads", plan.threads},
                  {"shared_bytes", plan.shared_bytes},
                  {"tile_queries", plan.tile_q},
                  {"tile_keys", plan.tile_k},
                  {"stages", plan.stages},
                  {"workspace_bytes", 0},
                  {"problem", problem_json(problem)}};
  return json.text();
}

std::string to_json(const Plan& plan, const core::Problem& problem, const core::Gradients& g) {
  const Named all[] = {
      {"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}, {"d_bias", g.d_bias}, {"d_sink", g.d_sink}};
  Json json = plan_json(plan, problem);
  json.add("gradients", present_among(all));
  json.add("accumulate", g.accumulate);
  return json.text();
}

}  // namespace tessera::plan
