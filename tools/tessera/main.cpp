// The command line `tessera`: a table of verbs, and the one place where a failure becomes an exit
// code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "tessera/tessera.h"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/terminal.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

constexpr Verb kVerbs[] = {
    {"run", add_run},         {"verify", add_verify}, {"bench", add_bench}, {"plan", add_plan},
    {"explain", add_explain}, {"info", add_info},     {"cache", add_cache},
};

constexpr const char* kDescription =
    "Exact attention: out = softmax(scale Q K^T + ...) V, tiled and in one pass.";

constexpr const char* kFooter =
    "Exit codes:\n"
    "  0                           done\n"
    "  1                           the result is wrong or a bound is missed\n"
    "  2                           bad input or options\n"
    "  3                           not supported\n"
    "\n"
    "Environment:\n"
    "  TESSERA_CPU                 force a CPU target; 'tessera info' lists them\n"
    "  TESSERA_THREADS             threads where --threads is not given\n"
    "  TESSERA_CACHE               folder of kernels compiled on this machine\n"
    "  TESSERA_NVRTC               the file of NVRTC that compiles them\n"
    "  NO_COLOR                    if set and not empty: no colours\n"
    "\n"
    "'tessera VERB --help' lists the options of a verb, --help-all those of all.\n";

int report(ExitCode exit_code, std::string_view sentence) {
  fmt::print(stderr, "{} {}\n", coloured(stderr, Colour::kRed, "tessera:"), sentence);
  return exit_code;
}

// The verb that was being parsed, as in " verify"; empty before the verb.
std::string verb_of(const CLI::App& app) {
  for (const CLI::App* verb : app.get_subcommands()) return " " + verb->get_name();
  return "";
}

int report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
  return report(kBadInput, fmt::format("{} (try 'tessera{} --help')", error.what(), verb_of(app)));
}

// A full disk or a closed pipe shows when the last bytes leave.
int flushed(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  return report(kBadInput, "standard output could not be written; is the disk full?");
}

int run(CLI::App& app, int argc, char** argv, const int& exit_code) {
  try {
    app.parse(argc, argv);
    return flushed(exit_code);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const Failure& failure) {
    return report(failure.exit_code(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(kNotSupported, "there is not enough memory for this; use a smaller problem");
  } catch (const std::exception& error) {
    return report(kWrong,
                  fmt::format("this is a defect of tessera, please report it: {}", error.what()));
  }
}

}  // namespace
}  // namespace tessera::tool

int main(int argc, char** argv) {
  int exit_code = tessera::tool::kDone;
  CLI::App app(tessera::tool::kDescription, "tessera");
  app.set_version_flag("--version", std::string("tessera ") + tessera_version());
  app.require_subcommand(1);
  for (const tessera::tool::Verb& verb : tessera::tool::kVerbs) verb.add(app, exit_code);
  // Afterwards: verbs inherit these.
  app.set_help_all_flag("--help-all", "Print the help of all verbs and exit");
  app.footer(tessera::tool::kFooter);
  return tessera::tool::run(app, argc, argv, exit_code);
}
