// Everything that can compute a call here, each through the C interface.
#pragma once
#include <string>
#include <vector>

#include "support/inputs.hpp"
#include "tessera/tessera.h"

namespace tessera::test {

inline constexpr int kThreadCounts[] = {1, 2, 5};

// "reference"; "cpu/<target>" for each target that this processor has, the best first; and
// "standard/<target>" for the best.
const std::vector<std::string>& backend_names();

// Those that do every option: all but standard attention.
std::vector<std::string> complete_backend_names();

// backend_names(); "emulator/sm80", the GPU kernels in software, where there is an emulator; and
// "cuda", where there is a GPU.
std::vector<std::string> names_with_emulator();
// The same without "cuda", for laws whose tensors reach further than there is memory.
std::vector<std::string> names_on_the_host();
// names_with_emulator() and "emulator/sm90".
std::vector<std::string> names_with_hopper();
// The first of complete_backend_names().
std::vector<std::string> complete_names_with_emulator();
// The same without the emulator, for laws that would take it long.
std::vector<std::string> names_with_gpu();

struct Backend {
  std::string name;
  int threads = 1;
  tessera_context* context = nullptr;  // kept until the program ends

  bool is_reference() const { return name == "reference"; }
  bool is_emulator() const { return name.starts_with("emulator/"); }
  bool is_gpu() const { return name == "cuda"; }
  bool is_cpu() const { return !is_reference() && !is_emulator() && !is_gpu(); }
  // Standard attention, which is there for comparison, and the GPU kernels do fewer options.
  bool does(const Case& c) const;
  // What stands before the command that runs this one.
  std::string environment() const;
  // The command line of a case on this backend.
  std::string command(const Case& c) const;
};

// What desc.backend is for it.
tessera_backend number_of(const Backend& backend);

// Makes the context on first use.
Backend backend(const std::string& name, int threads = 1);

// The definition, rounded once to the dtype of the case.
inline Backend reference() { return backend("reference"); }

// Runs the call into outputs that held poison. A refusal is in status and message.
Outputs run(const Backend& on, const Inputs& inputs);

// The same with TESSERA_BATCH_INVARIANT, so that two calls which the planner would give to
// different kernels have the same bits. Standard attention, which refuses the flag, has one kernel.
Outputs run_invariant(const Backend& on, const Inputs& inputs);

// The same for a descriptor that was changed by hand; `outputs` are what it points at.
void run(const Backend& on, tessera_attention_desc desc, Outputs& outputs);

// The definition in float64 on the very numbers of `inputs`.
Outputs define(const Inputs& inputs);

// A context of one's own; ends with the test.
class Context {
 public:
  explicit Context(const tessera_context_config& config);
  ~Context() { tessera_context_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend as(const std::string& name) const { return {name, 1, context_}; }

 private:
  tessera_context* context_ = nullptr;
};

// The configuration of backend(name, threads).
tessera_context_config config_of(const std::string& name, int threads);

}  // namespace tessera::test
