// tessera info: what this library and this machine can do.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/tessera/call.hpp"
#include "tools/tessera/parse.hpp"
#include "tools/tessera/show.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

struct Info {
  int threads = 0;
  bool json = false;

  void print() const {
    auto facts = nlohmann::ordered_json::parse(context_json(make_context(threads)));
    facts["gpu"] = nlohmann::ordered_json::parse(gpus_json());
    const std::string text = facts.dump();
    fmt::print("{}", json ? text + "\n" : json_as_text(text));
  }
};

}  // namespace

void add_info(CLI::App& root, int&) {
  CLI::App& verb = *root.add_subcommand("info", "Version, CPU targets, threads, build, GPUs");
  const auto info = std::make_shared<Info>();
  verb.add_option_function<std::string>(
          "--threads", [info](const std::string& text) { info->threads = parse_threads(text); },
          "Threads, >= 1; without it all processors")
      ->type_name("N")
      ->group("Execution");
  verb.add_flag("--json", info->json, "One JSON object")->group("Output");
  verb.callback([info] { info->print(); });
}

}  // namespace tessera::tool
