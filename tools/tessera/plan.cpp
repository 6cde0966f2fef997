// tessera plan: what a call would run, and why, without running it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/tessera/call.hpp"
#include "tools/tessera/show.hpp"
#include "tools/tessera/splits.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

struct Plan {
  Source source;
  AttentionOptions options;
  bool json = false;

  void print() const {
    const Context context = make_context(options.threads);
    const Inputs inputs = load_inputs(source, options, Fill::kOutlines);
    const Results results = make_results(shape_of(inputs), inputs.q.tensor.dtype, Fill::kOutlines);
    const std::string text = plan_json(context, inputs, options, results);
    fmt::print("{}", json ? text + "\n" : json_as_text(text));
  }
};

}  // namespace

void add_plan(CLI::App& root, int&) {
  CLI::App& verb = *root.add_subcommand("plan", "What would run: target, tiles, workspace, why");
  const auto plan = std::make_shared<Plan>();
  add_source_options(verb, plan->source);
  add_attention_options(verb, plan->options);
  add_splits_option(verb, plan->options);
  verb.add_flag("--json", plan->json, "One JSON object")->group("Output");
  verb.callback([plan] { plan->print(); });
}

}  // namespace tessera::tool
