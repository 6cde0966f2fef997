#include "api/context.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <new>
#include <thread>

#include "api/gpu.hpp"
#include "api/require.hpp"
#include "core/reference.hpp"

namespace tessera::api {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// 0 if the text is no number, or too large for one.
int number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

Threads choose_threads(std::int32_t wanted) {
  require(wanted >= 0 && wanted <= kMostThreads, Sentence::kThreads, std::int64_t{wanted},
          std::int64_t{kMostThreads});
  if (wanted > 0) return {wanted, "config.threads"};
  const std::string_view text = variable("TESSERA_THREADS");
  if (text.empty()) {
    const auto processors = int(std::thread::hardware_concurrency());  // 0 if unknown
    return {std::clamp(processors, 1, kMostThreads), "one for each processor"};
  }
  const int number = number_in(text);
  require(number >= 1 && number <= kMostThreads, Sentence::kThreadsVariable, text,
          std::int64_t{kMostThreads});
  return {number, "TESSERA_THREADS"};
}

// The names of the targets that this processor has.
std::string choices(const std::vector<cpu::TargetInfo>& targets) {
  std::string names;
  for (const cpu::TargetInfo& target : targets)
    if (target.present) names.append(names.empty() ? "" : ", ").append(target.name);
  return names;
}

Target find_target(std::string_view name, std::string_view why) {
  const std::vector<cpu::TargetInfo> targets = cpu::targets();
  for (const cpu::TargetInfo& target : targets)
    if (target.name == name && target.present) return {target.name, why};
  refuse(Sentence::kTarget, {why, name, std::string_view(choices(targets))});
}

Target choose_target(const char* wanted) {
  if (wanted != nullptr) return find_target(wanted, "config.cpu_target");
  const std::string_view text = variable("TESSERA_CPU");
  if (!text.empty()) return find_target(text, "TESSERA_CPU");
  for (const cpu::TargetInfo& target : cpu::targets())
    if (target.present && target.preferred) return {target.name, "the best of this processor"};
  return find_target("scalar", "the target that every processor has");
}

// What is wrong with the OpenMP run time of a config; empty if nothing is.
std::string_view fault_of(const tessera_openmp* openmp, const Threads& threads) {
  if (openmp == nullptr) return "is NULL";
  if (openmp->size < sizeof(tessera_openmp)) return "has a size that no version has";
  if (!openmp->parallel || !openmp->thread_num || !openmp->num_threads) return "lacks a function";
  if (openmp->threads != threads.count) return "has another number of threads";
  return "";
}

void check_executor(const tessera_executor& executor, const Threads& threads) {
  if (executor.parallel_for != tessera_openmp_parallel_for) return;
  const auto* openmp = static_cast<const tessera_openmp*>(executor.user);
  const std::string_view fault = fault_of(openmp, threads);
  require(fault.empty(), Sentence::kOpenmp, fault);
}

// Checks what is not yet checked, then copies.
const tessera_context_config& checked(const tessera_context_config& config) {
  require(config.flags == 0, Sentence::kFlags, std::string_view("config"), Hex{config.flags});
  require(config.reserved == 0, Sentence::kReserved, std::string_view("config"),
          std::string_view("tessera_context_config"));
  const tessera_allocator& a = config.allocator;
  require((a.allocate == nullptr) == (a.release == nullptr), Sentence::kAllocator,
          std::string_view(a.allocate == nullptr ? "allocate" : "release"));
  return config;
}

cpu::Engine::Options engine_options(const tessera_context_config& config, const Threads& threads,
                                    const Target& target) {
  const tessera_executor& e = config.executor;
  check_executor(e, threads);
  const tessera_allocator& a = config.allocator;
  return {.threads = threads.count,
          .target = target.name,
          .executor = {e.parallel_for, e.user},
          .allocator = {a.allocate, a.release, a.user}};
}

void check_room(const plan::Plan& plan, const void* workspace, std::uint64_t bytes) {
  require(workspace == nullptr || bytes >= std::uint64_t(plan.workspace_bytes()),
          Sentence::kSmallWorkspace, bytes, plan.workspace_bytes());
}

// The definition needs memory for each row: where it ends, no half of a result is left.
double define(const core::Problem& p) {
  try {
    return core::reference::forward(p);
  } catch (const std::bad_alloc&) {
    for (const core::Tensor* t : {&p.out, &p.lse}) core::fill(*t, kNaN);
    throw;
  }
}

}  // namespace

Context::Context(const tessera_context_config& config)
    : Context(checked(config), choose_threads(config.threads), choose_target(config.cpu_target)) {}

Context::Context(const tessera_context_config& config, const Threads& threads, const Target& target)
    : threads_(threads),
      target_(target),
      lent_threads_(config.executor.parallel_for != nullptr),
      lent_memory_(config.allocator.allocate != nullptr),
      engine_(engine_options(config, threads, target)) {}

void Context::attention(const tessera_attention_desc& desc) {
  const Call call = convert(desc, Purpose::kRun);
  if (call.backend == plan::Backend::kCuda) return run_on_gpu(call);
  if (call.backend == plan::Backend::kEmulator) return run_in_software(call);
  const plan::Plan plan = plan::make_plan(call.problem, call.backend, engine_.device());
  check_room(plan, call.workspace, call.workspace_bytes);
  if (plan.backend != plan::Backend::kReference)
    return engine_.run(call.problem, plan, call.workspace);
  const double score_max = define(call.problem);
  if (call.score_max != nullptr) *call.score_max = score_max;
}

void Context::attention_backward(const tessera_attention_backward_desc& desc,
                                 const tessera_attention_desc& forward) {
  const BackwardCall call = convert(desc, forward, Purpose::kRun);
  const plan::Plan plan =
      plan::make_backward_plan(call.problem, call.gradients, call.backend, engine_.device());
  check_room(plan, call.workspace, call.workspace_bytes);
  if (plan.backend != plan::Backend::kReference)
    return engine_.run_backward(call.problem, call.gradients, plan, call.workspace);
  core::GradientTerms terms;
  double* to = call.term_norms;
  core::reference::backward(call.problem, call.gradients, to == nullptr ? nullptr : &terms);
  if (to == nullptr) return;
  for (const auto& [all, out] : terms) *to++ = all, *to++ = out;
}

std::string Context::describe_plan(const tessera_attention_desc& desc) const {
  const Call call = convert(desc, Purpose::kDescribe);
  if (call.backend == plan::Backend::kCuda) return describe_gpu_plan(call);
  if (call.backend == plan::Backend::kEmulator) return describe_software_plan(call);
  return plan::to_json(plan::make_plan(call.problem, call.backend, engine_.device()), call.problem);
}

std::string Context::describe_plan(const tessera_attention_backward_desc& desc,
                                   const tessera_attention_desc& forward) const {
  const BackwardCall call = convert(desc, forward, Purpose::kDescribe);
  const plan::Plan plan =
      plan::make_backward_plan(call.problem, call.gradients, call.backend, engine_.device());
  return plan::to_json(plan, call.problem, call.gradients);
}

}  // namespace tessera::api
