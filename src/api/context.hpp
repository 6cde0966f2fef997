// What stands behind a tessera_context: the CPU's engine, and where each of its numbers came from.
#pragma once
#include <string>
#include <string_view>

#include "api/convert.hpp"
#include "cpu/engine.hpp"
#include "tessera/tessera.h"

namespace tessera::api {

inline constexpr int kMostThreads = 1024;

// A value and who decided it.
struct Threads {
  int count;
  std::string_view why;
};
struct Target {
  std::string_view name;
  std::string_view why;
};

class Context {
 public:
  explicit Context(const tessera_context_config& config);

  void attention(const tessera_attention_desc& desc);
  void attention_backward(const tessera_attention_backward_desc& desc,
                          const tessera_attention_desc& forward);
  // One JSON object each.
  std::string describe_plan(const tessera_attention_desc& desc) const;
  std::string describe_plan(const tessera_attention_backward_desc& desc,
                            const tessera_attention_desc& forward) const;
  std::string describe() const;

 private:
  Context(const tessera_context_config& config, const Threads& threads, const Target& target);

  Threads threads_;
  Target target_;
  bool lent_threads_, lent_memory_;
  cpu::Engine engine_;
};

}  // namespace tessera::api
