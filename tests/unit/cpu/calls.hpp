// Calls of the CPU backend without the C interface.
#pragma once
#include <string>
#include <string_view>

#include "api/convert.hpp"
#include "cpu/engine.hpp"
#include "plan/plan.hpp"
#include "support/backend.hpp"
#include "support/compare.hpp"
#include "support/inputs.hpp"

namespace tessera::test {

// The problem of a case; it points into both arguments.
inline core::Problem problem_of(const Inputs& inputs, const Outputs& outputs) {
  return api::convert(describe(inputs, outputs), api::Purpose::kRun).problem;
}

inline std::string_view best_target() {
  for (const cpu::TargetInfo& target : cpu::targets())
    if (target.present) return target.name;
  return "";
}

inline cpu::Engine::Options options_for(int threads, std::string_view target = best_target()) {
  return {.threads = threads, .target = target, .executor = {}, .allocator = {}};
}

inline Outputs run(cpu::Engine& engine, const Inputs& inputs,
                   plan::Backend backend = plan::Backend::kCpu) {
  Outputs outputs(inputs.of);
  const core::Problem problem = problem_of(inputs, outputs);
  engine.run(problem, plan::make_plan(problem, backend, engine.device()));
  return outputs;
}

// For messages: the command line that runs the case.
inline Backend named(const cpu::Engine& engine, std::string_view kind = "cpu/") {
  return {std::string(kind) + std::string(engine.device().target), int(engine.device().threads),
          nullptr};
}

// Work for five threads: eight tasks a head on the widest target, and more than 4 MFLOP a thread.
inline Case case_for_threads(std::uint64_t seed = 1) {
  Case c;
  c.batch = 2, c.heads = 4, c.kv_heads = 2;
  c.queries = 161, c.keys = 170;
  c.dim = 48, c.value_dim = 40;
  c.seed = seed;
  return c;
}

}  // namespace tessera::test
