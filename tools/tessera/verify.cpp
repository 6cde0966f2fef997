// tessera verify: a call, or a given result of it, against the definition in double precision.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "core/underflow.hpp"
#include "tools/tessera/call.hpp"
#include "tools/tessera/command.hpp"
#include "tools/tessera/definition.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/files.hpp"
#include "tools/tessera/gradients.hpp"
#include "tools/tessera/show.hpp"
#include "tools/tessera/splits.hpp"
#include "tools/tessera/terminal.hpp"
#include "tools/tessera/verb.hpp"
#include "tools/tessera/verdict.hpp"

namespace tessera::tool {
namespace {

struct Verify {
  Source source;
  AttentionOptions options;
  std::string result;
  bool backward = false, d_lse = false;
  bool json = false;
};

// A gradient beside its definition.
struct GradientVerdict {
  std::string_view name;
  Verdict verdict;
};

struct Report {
  Shape shape;
  core::DType dtype = core::DType::kFloat32;
  std::optional<Choice> choice;           // none for a given result
  std::optional<Choice> backward_choice;  // none without the backward pass
  core::ScoreSize score{};
  Verdict out;
  std::optional<Verdict> lse;
  std::vector<GradientVerdict> gradients;

  bool pass() const {
    return out.pass && (!lse || lse->pass) &&
           std::all_of(gradients.begin(), gradients.end(),
                       [](const GradientVerdict& g) { return g.verdict.pass; });
  }
};

std::string command(const Verify& verify) {
  Command command("verify");
  command.add(verify.source).add(verify.options).add("--result", verify.result);
  if (verify.backward) command.add("--backward");
  if (verify.d_lse) command.add("--d-lse");
  return command.text();
}

void check(const Verify& verify) {
  if (verify.backward && !verify.result.empty())
    refuse("--result holds the out of a call, of which there are no gradients; drop --backward");
  if (verify.options.splits > 0 && !verify.result.empty())
    refuse("--result holds what a call gave, and --splits cuts one that is made; drop one of them");
  if (verify.d_lse && !verify.backward)
    refuse("--d-lse goes with --backward; give both, or drop it");
}

Array checked(const std::string& path, const Array& given, const Array& wanted) {
  if (!core::is_float(given.tensor.dtype) || given.tensor.shape != wanted.tensor.shape)
    refuse(fmt::format(
        "{} holds {} of shape {}; this call gives floating-point numbers of shape {}", path,
        core::name_of(given.tensor.dtype), shape_text(given.shape()), shape_text(wanted.shape())));
  return given;
}

// out, and lse if the file has it.
Results read_results(const std::string& path, const Results& wanted) {
  const ArrayFile file(path, "out");
  Results results{checked(path, file.get("out"), wanted.out), {}};
  if (file.has("lse")) results.lse = checked(path, file.get("lse"), wanted.lse);
  return results;
}

// A call that was made, and its definition.
struct Outcome {
  const Context& context;
  const Results& results;
  const Definition& definition;
};

core::PairSizes pair_sizes(const Shape& s) {
  return {s.batch, s.heads, s.kv_heads, s.queries, s.keys};
}

// How large the operands of the forward pass are.
core::OperandSizes operand_sizes(const Inputs& inputs, const AttentionOptions& options) {
  const tessera_attention_desc desc = describe(inputs, options);
  const double scale{desc.scale};
  return {.scale = std::isnan(scale) ? 1 / std::sqrt(double(inputs.q.tensor.shape[3])) : scale,
          .dropout = 1 / (1 - double{desc.dropout_p}),
          .q = core::longest_row(inputs.q.tensor),
          .k = core::longest_row(inputs.k.tensor),
          .v = std::max(core::longest_row(inputs.v.tensor),
                        core::longest_row(inputs.state_out.tensor))};
}

// What the gradients may have lost below the normal numbers.
core::LostTerms lost_terms(const Verify& verify, const Inputs& inputs, const Upstream& from_above,
                           const Outcome& call) {
  core::OperandSizes sizes = operand_sizes(inputs, verify.options);
  const core::Tensor& d_out = from_above.d_out.tensor;
  sizes.d_out = core::longest_row(d_out);
  sizes.d_lse = core::longest_row(from_above.d_lse.tensor);
  return {inputs.q.tensor.dtype, shape_of(inputs).keys, sizes,
          core::lost_of_reads(call.results.out.tensor.dtype, call.definition.results.out.tensor,
                              d_out)};
}

// The gradients of the call that gave `results`.
void judge_backward(const Verify& verify, const Inputs& inputs, const Outcome& call,
                    Report& report) {
  const Upstream upstream = random_upstream(inputs, verify.source.seed, verify.d_lse);
  const Gradients gradients = make_gradients(inputs);
  tessera_attention_desc forward = describe(inputs, verify.options);
  forward.out = to_c(call.results.out.tensor);
  forward.lse = to_c(call.results.lse.tensor);
  const tessera_attention_backward_desc desc = describe(upstream, gradients, forward);
  report.backward_choice = choice_of(plan_json(call.context, desc));
  differentiate(call.context, desc);
  const GradientDefinition definition =
      define_gradients(call.context, inputs, verify.options, upstream, call.definition);
  const core::LostTerms lost = lost_terms(verify, inputs, upstream, call);
  for (const core::Gradient g : kEveryGradient) {
    const Array& got = gradients[g];
    if (!got.present()) continue;
    const std::int64_t elements = count(got.tensor);
    const std::int64_t summed = core::longest_sum(g, pair_sizes(report.shape), elements);
    const core::GradientMeasure measure{.inputs = report.dtype,
                                        .out = call.results.out.tensor.dtype,
                                        .gradient = got.tensor.dtype,
                                        .summed = summed,
                                        .score = report.score,
                                        .terms = definition.terms[std::size_t(g)],
                                        .lost = core::lost_of_gradient(g, lost, summed, elements)};
    report.gradients.push_back(
        {core::kGradientNames[std::size_t(g)],
         judge_gradient(got.tensor, definition.gradients[g].tensor, measure)});
  }
}

// Which batch rows of k one of q can meet.
core::Rows rows_read(const Inputs& inputs) {
  const bool any = inputs.block_table.present() || inputs.cache_batch_idx.present() ||
                   inputs.cu_seqlens_q.present();
  return any ? core::Rows::kAny : core::Rows::kPaired;
}

Report judge(const Verify& verify) {
  const Inputs inputs = load_inputs(verify.source, verify.options);
  const Shape shape = shape_of(inputs);
  const core::DType dtype = inputs.q.tensor.dtype;
  const Context context = make_context(verify.options.threads);
  Results results = make_results(shape, dtype);
  const Choice choice = choice_of(plan_json(context, inputs, verify.options, results));
  const bool given = !verify.result.empty();
  if (given)
    results = read_results(verify.result, results);
  else
    attend(context, inputs, verify.options, results);
  const Definition definition = define(context, inputs, verify.options);
  const core::ScoreSize score{
      definition.score_max,
      core::largest_product(inputs.q.tensor, inputs.k.tensor,
                            double{describe(inputs, verify.options).scale}, rows_read(inputs))};
  const Measure measure{
      dtype, shape.keys, score,
      core::lost_of_out(dtype, shape.keys, operand_sizes(inputs, verify.options))};
  Report report;
  report.shape = shape;
  report.dtype = dtype;
  report.score = score;
  if (!given) report.choice = choice;
  report.out = judge_out(results.out.tensor, definition.results.out.tensor, measure);
  if (results.lse.present())
    report.lse = judge_lse(results.lse.tensor, definition.results.lse.tensor, measure);
  if (verify.backward) judge_backward(verify, inputs, {context, results, definition}, report);
  return report;
}

std::string beside_bound(const Verdict& verdict) {
  return fmt::format("{:.2e}, bound {:.2e}", verdict.relative_error, verdict.bound);
}

void print_text(const Verify& verify, const Report& report) {
  if (report.choice) print_line("backend", to_text(*report.choice));
  if (!verify.result.empty()) print_line("result", verify.result);
  print_line("shape",
             fmt::format("{}, {}", shape_in_words(report.shape), core::name_of(report.dtype)));
  if (verify.options.splits > 0) print_line("splits", std::to_string(verify.options.splits));
  print_line("max error", fmt::format("{:.2e}", report.out.max_error));
  print_line("relative error", beside_bound(report.out));
  if (report.lse) print_line("lse error", beside_bound(*report.lse));
  if (report.backward_choice) print_line("backward", to_text(*report.backward_choice));
  for (const auto& [name, verdict] : report.gradients)
    print_line(fmt::format("{} error", name), beside_bound(verdict));
  print_line("largest |score|", fmt::format("{:.4g}", report.score.largest));
  print_line("verdict", report.pass() ? coloured(stdout, Colour::kGreen, "pass")
                                      : coloured(stdout, Colour::kRed, "outside the bound"));
  print_line("command", command(verify));
}

void print_json(const Verify& verify, const Report& report) {
  nlohmann::ordered_json line{{"max_error", report.out.max_error},
                              {"relative_error", report.out.relative_error},
                              {"bound", report.out.bound}};
  if (report.lse) {
    line["lse_max_error"] = report.lse->max_error;
    line["lse_relative_error"] = report.lse->relative_error;
    line["lse_bound"] = report.lse->bound;
  }
  for (const auto& [name, verdict] : report.gradients) {
    line[fmt::format("{}_max_error", name)] = verdict.max_error;
    line[fmt::format("{}_relative_error", name)] = verdict.relative_error;
    line[fmt::format("{}_bound", name)] = verdict.bound;
  }
  line["score_max"] = report.score.largest;
  line["score_product"] = report.score.product;
  line["pass"] = report.pass();
  if (report.choice) {
    line["backend"] = report.choice->backend;
    line["target"] = report.choice->target;
    line["threads"] = report.choice->threads;
  }
  if (verify.options.splits > 0) line["splits"] = verify.options.splits;
  if (report.backward_choice) line["backward_backend"] = report.backward_choice->backend;
  if (!verify.result.empty()) line["result"] = verify.result;
  line["shape"] = to_text(report.shape);
  line["dtype"] = core::name_of(report.dtype);
  line["command"] = command(verify);
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run(const Verify& verify) {
  check(verify);
  const Report report = judge(verify);
  verify.json ? print_json(verify, report) : print_text(verify, report);
  return report.pass() ? kDone : kWrong;
}

}  // namespace

void add_verify(CLI::App& root, int& exit_code) {
  CLI::App& verb =
      *root.add_subcommand("verify", "Check a call against the definition in double precision");
  const auto verify = std::make_shared<Verify>();
  add_source_options(verb, verify->source);
  add_attention_options(verb, verify->options);
  add_splits_option(verb, verify->options);
  verb.add_flag("--backward", verify->backward, "Check the gradients too, for a random d_out")
      ->group("Gradients");
  verb.add_flag("--d-lse", verify->d_lse, "With a random d_lse beside it")->group("Gradients");
  add_text_option(
      verb,
      {"Output", "--result", "FILE", "Check the out (and lse) of a file instead of computing them"},
      verify->result);
  verb.add_flag("--json", verify->json, "One JSON object")->group("Output");
  verb.callback([verify, &exit_code] { exit_code = run(*verify); });
}

}  // namespace tessera::tool
