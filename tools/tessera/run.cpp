// tessera run: one call on files, results to files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/tessera/call.hpp"
#include "tools/tessera/command.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/files.hpp"
#include "tools/tessera/show.hpp"
#include "tools/tessera/splits.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

struct Run {
  Source source;
  AttentionOptions options;
  std::string out, lse, state_out;
  bool json = false;
};

struct Report {
  Choice choice;
  Shape shape;
  core::DType dtype;
  double ms;
};

std::string command(const Run& run) {
  return Command("run")
      .add(run.source)
      .add(run.options)
      .add("--out", run.out)
      .add("--lse", run.lse)
      .add("--state-out", run.state_out)
      .text();
}

std::vector<Destination> destinations(const Run& run, const Results& results) {
  std::vector<Destination> list;
  if (!run.out.empty()) list.push_back({run.out, "out", results.out});
  if (!run.lse.empty()) list.push_back({run.lse, "lse", results.lse});
  if (run.state_out.empty()) return list;
  list.push_back({run.state_out, "out", results.out});
  list.push_back({run.state_out, "lse", results.lse});
  return list;
}

// Milliseconds of the call alone, with its splits and their merge.
double timed(const Context& context, const Inputs& inputs, const AttentionOptions& options,
             const Results& results) {
  const auto begin = std::chrono::steady_clock::now();
  attend(context, inputs, options, results);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

Report compute(const Run& run) {
  if (!run.state_out.empty() && !(run.out.empty() && run.lse.empty()))
    refuse("--state-out writes out and lse itself; drop --out and --lse");
  const Inputs inputs = load_inputs(run.source, run.options);
  const Shape shape = shape_of(inputs);
  const core::DType dtype = inputs.q.tensor.dtype;
  Results results = make_results(shape, run.state_out.empty() ? dtype : core::DType::kFloat32);
  check_destinations(destinations(run, results));
  if (run.lse.empty() && run.state_out.empty()) results.lse = {};
  const Context context = make_context(run.options.threads);
  const Choice choice = choice_of(plan_json(context, inputs, run.options, results));
  const double ms = timed(context, inputs, run.options, results);
  write_arrays(destinations(run, results));
  return {choice, shape, dtype, ms};
}

void print_text(const Run& run, const Report& report) {
  print_line("backend", to_text(report.choice));
  print_line("shape",
             fmt::format("{}, {}", shape_in_words(report.shape), core::name_of(report.dtype)));
  if (run.options.splits > 0) print_line("splits", std::to_string(run.options.splits));
  print_line("time", fmt::format("{:.3f} ms", report.ms));
  print_line("out", run.out.empty() ? "not written; name a file with --out" : run.out);
  if (!run.lse.empty()) print_line("lse", run.lse);
  if (!run.state_out.empty()) print_line("state", run.state_out);
}

void print_json(const Run& run, const Report& report) {
  nlohmann::ordered_json line{
      {"backend", report.choice.backend},     {"target", report.choice.target},
      {"threads", report.choice.threads},     {"shape", to_text(report.shape)},
      {"dtype", core::name_of(report.dtype)}, {"ms", report.ms}};
  if (run.options.splits > 0) line["splits"] = run.options.splits;
  if (!run.out.empty()) line["out"] = run.out;
  if (!run.lse.empty()) line["lse"] = run.lse;
  if (!run.state_out.empty()) line["state_out"] = run.state_out;
  line["command"] = command(run);
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void add_run(CLI::App& root, int&) {
  CLI::App& verb = *root.add_subcommand("run", "Compute one call, from files to files");
  const auto run = std::make_shared<Run>();
  add_source_options(verb, run->source);
  add_attention_options(verb, run->options);
  add_splits_option(verb, run->options);
  add_text_option(verb,
                  {"Output", "--out", "FILE", "Write out, [B, Lq, H, Dv], .npy or .safetensors"},
                  run->out);
  add_text_option(
      verb, {"Output", "--lse", "FILE", "Write lse, [B, H, Lq], float32; may be the file of --out"},
      run->lse);
  add_text_option(verb,
                  {"Output", "--state-out", "FILE",
                   "Write out in float32 and lse, a state, to one .safetensors file"},
                  run->state_out);
  verb.add_flag("--json", run->json, "One JSON object")->group("Output");
  verb.callback([run] {
    const Report report = compute(*run);
    run->json ? print_json(*run, report) : print_text(*run, report);
  });
}

}  // namespace tessera::tool
