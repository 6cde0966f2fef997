// A verb of the command line: `tessera NAME [options]`. One file each, and a row in main.cpp.
#pragma once

namespace CLI {
class App;
}

namespace tessera::tool {

// add() declares the subcommand and its options; its callback does the work, leaves an ExitCode
// (failure.hpp) in exit_code, and throws Failure to refuse.
struct Verb {
  const char* name;
  void (*add)(CLI::App& root, int& exit_code);
};

void add_run(CLI::App& root, int& exit_code);
void add_verify(CLI::App& root, int& exit_code);
void add_bench(CLI::App& root, int& exit_code);
void add_plan(CLI::App& root, int& exit_code);
void add_explain(CLI::App& root, int& exit_code);
void add_cache(CLI::App& root, int& exit_code);
void add_info(CLI::App& root, int& exit_code);

}  // namespace tessera::tool
