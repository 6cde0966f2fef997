// tessera explain: the online softmax of one row step by step, and the traffic of its schedule.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "core/error.hpp"
#include "core/explain_json.hpp"
#include "tools/tessera/command.hpp"
#include "tools/tessera/explain_report.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

struct Explain {
  core::ExplainRequest request;
  std::string words;  // the options as given
  bool json = false, list = false;
};

// A sentence of the core, as the refusal of a verb.
template <class Work> void refusing(Work work) {
  try {
    work();
  } catch (const core::Error& error) {
    refuse(error.what());
  }
}

// Options may be given again; each is noted for the command that the output names.
void add_options(CLI::App& verb, Explain& e) {
  for (const core::ExplainOption& option : core::explain_options())
    verb.add_option_function<std::vector<std::string>>(
            option.flag,
            [&e, &option](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) {
                e.words += fmt::format(" {} {}", option.flag, shell_quoted(text));
                refusing([&] { option.read(e.request, text); });
              }
            },
            option.help)
        ->type_name(option.value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(option.group);
}

void print_json(const Explain& e) {
  fmt::print("{}\n", e.list ? core::catalogue_json().text()
                            : to_json(e.request, "tessera explain" + e.words));
}

void print_text(const Explain& e) {
  if (e.list) {
    fmt::print("{}", catalogue_text());
    return;
  }
  const core::RowTrace trace = e.request.trace();
  fmt::print("{}\n", to_text(trace));
  if (e.request.workers > 0) fmt::print("{}\n", to_text(e.request.split(trace)));
  if (e.request.grid_rows > 0) fmt::print("{}\n", to_text(e.request.grid()));
  const std::vector<TrafficRow> rows = e.request.traffic();
  fmt::print("{}{}", to_text(rows), times_text(rows));
}

}  // namespace

void add_explain(CLI::App& root, int&) {
  CLI::App& verb =
      *root.add_subcommand("explain", "The online softmax step by step, and the traffic model");
  const auto options = std::make_shared<Explain>();
  add_options(verb, *options);
  verb.add_flag("--list", options->list, "Presets and machines, by name")->group("Output");
  verb.add_flag("--json", options->json, "One JSON object")->group("Output");
  verb.callback([options] {
    refusing([&] { options->json ? print_json(*options) : print_text(*options); });
  });
}

}  // namespace tessera::tool
