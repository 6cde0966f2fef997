// tessera explain: the online softmax of one row step by step, and the traffic of its schedule.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "core/error.hpp"
#include "tools/tessera/command.hpp"
#include "tools/tessera/explain_report.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/parse.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

// Shared memory and L1 of one SM of an A100 (Dao et al. 2022, section 2.1).
constexpr std::int64_t kSramBytes = 192 * 1024;
// Where --n and --d are not given, the trace takes a row that one can read, and the model lengths
// and a dimension that models have.
constexpr std::int64_t kModelLengths[] = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
constexpr std::int64_t kModelDim = 64;

struct Explain {
  core::RowOptions row;
  std::optional<std::int64_t> n, d;
  std::optional<core::TileSize> tile;
  std::int64_t sram_bytes = kSramBytes, heads = 1;
  core::Pass pass = core::Pass::kForward;
  std::string words;  // the options as given
  bool json = false;
};

// ---- Options ----

std::int64_t parse_positive(std::string_view option, const std::string& text) {
  const std::int64_t n = parse_integer(option, text);
  if (n < 1) refuse(fmt::format("{} is {}; give an integer >= 1", option, n));
  return n;
}

core::TileSize parse_tile(const std::string& text) {
  const std::vector<std::int64_t> sides = parse_integers("--tile", text);
  if (sides.size() != 2 || sides[0] < 1 || sides[1] < 1)
    refuse(fmt::format("--tile is '{}'; give rows of q and rows of k and v, such as 64,128", text));
  return {sides[0], sides[1]};
}

core::Pass parse_pass(const std::string& text) {
  if (text == "forward") return core::Pass::kForward;
  if (text == "backward") return core::Pass::kBackward;
  refuse(fmt::format("--pass is '{}'; give forward or backward", text));
}

std::vector<float> parse_scores(const std::string& text) {
  std::vector<float> scores;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    scores.push_back(parse_float("--scores", text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return scores;
}

core::Range parse_hidden(const std::string& text) {
  const std::vector<std::int64_t> ends = parse_integers("--hide", text);
  if (ends.size() > 2)
    refuse(fmt::format("--hide is '{}'; give one key, or the first and the last: 2,3", text));
  return {ends.front(), ends.back() + 1};
}

struct OptionRow {
  const char *group, *flag, *value, *help;
  void (*read)(Explain& e, const std::string& text);
};

constexpr OptionRow kOptions[] = {
    {"Both", "--n", "N", "Keys; without it 8 in the trace, 1K to 64K in the model",
     [](Explain& e, const std::string& text) { e.n = parse_positive("--n", text); }},
    {"Both", "--d", "D", "Head dimension; without it 4 in the trace, 64 in the model",
     [](Explain& e, const std::string& text) { e.d = parse_positive("--d", text); }},
    {"Both", "--dtype", "T", "f32 (the default), f16 or bf16",
     [](Explain& e, const std::string& text) { e.row.dtype = parse_dtype(text); }},
    {"Trace", "--block", "N", "Keys of one step; without it 2",
     [](Explain& e, const std::string& text) { e.row.block = parse_positive("--block", text); }},
    {"Trace", "--seed", "N", "Seed of q, k and v; without it 0",
     [](Explain& e, const std::string& text) { e.row.seed = parse_seed(text); }},
    {"Trace", "--scores", "LIST", "The scores, one for each key, in place of q and k",
     [](Explain& e, const std::string& text) { e.row.scores = parse_scores(text); }},
    {"Trace", "--hide", "FIRST[,LAST]", "Hide keys, as a mask does; may be given again",
     [](Explain& e, const std::string& text) { e.row.hidden.push_back(parse_hidden(text)); }},
    {"Trace", "--row", "I", "Causal: the query whose last visible key is I",
     [](Explain& e, const std::string& text) {
       e.row.row = parse_integer("--row", text);
       e.row.band.right = 0;
     }},
    {"Trace", "--sink", "X", "A logit without a value that joins the denominator",
     [](Explain& e, const std::string& text) { e.row.sink = parse_float("--sink", text); }},
    {"Traffic model", "--sram", "BYTES", "Fast memory M; without it 196608, one SM of an A100",
     [](Explain& e, const std::string& text) { e.sram_bytes = parse_positive("--sram", text); }},
    {"Traffic model", "--tile", "ROWS,KEYS", "The tile; without it the largest that fits in M",
     [](Explain& e, const std::string& text) { e.tile = parse_tile(text); }},
    {"Traffic model", "--heads", "N", "Batch times heads; without it 1",
     [](Explain& e, const std::string& text) { e.heads = parse_positive("--heads", text); }},
    {"Traffic model", "--pass", "PASS", "forward (the default) or backward",
     [](Explain& e, const std::string& text) { e.pass = parse_pass(text); }},
};

// Options may be given again; each is noted for the command that the output names.
void add_options(CLI::App& verb, Explain& e) {
  for (const OptionRow& row : kOptions)
    verb.add_option_function<std::vector<std::string>>(
            row.flag,
            [&e, &row](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) {
                e.words += fmt::format(" {} {}", row.flag, shell_quoted(text));
                row.read(e, text);
              }
            },
            row.help)
        ->type_name(row.value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(row.group);
}

// ---- The work ----

core::RowTrace trace_of(const Explain& e) {
  core::RowOptions row = e.row;
  row.keys = e.n.value_or(row.scores.empty() ? row.keys : std::int64_t(row.scores.size()));
  row.dim = e.d.value_or(row.dim);
  return core::explain_row(row);
}

TrafficRow traffic_of(const Explain& e, std::int64_t n) {
  const std::int64_t d = e.d.value_or(kModelDim);
  const core::TrafficShape shape{.heads = e.heads,
                                 .queries = n,
                                 .keys = n,
                                 .dim = d,
                                 .value_dim = d,
                                 .element_bytes = core::size_of(e.row.dtype),
                                 .pass = e.pass};
  return {shape, e.sram_bytes, core::model_traffic(shape, e.sram_bytes, e.tile)};
}

Explanation explain(const Explain& e) {
  Explanation result{trace_of(e), {}, "tessera explain" + e.words};
  if (e.n) {
    result.rows.push_back(traffic_of(e, *e.n));
  } else {
    for (const std::int64_t n : kModelLengths) result.rows.push_back(traffic_of(e, n));
  }
  return result;
}

void print(const Explain& e) {
  try {
    const Explanation result = explain(e);
    if (e.json) {
      fmt::print("{}\n", to_json(result));
    } else {
      fmt::print("{}\n{}", to_text(result.trace), to_text(result.rows));
    }
  } catch (const core::Error& error) {
    refuse(error.what());
  }
}

}  // namespace

void add_explain(CLI::App& root, int&) {
  CLI::App& verb =
      *root.add_subcommand("explain", "The online softmax step by step, and the traffic model");
  const auto options = std::make_shared<Explain>();
  add_options(verb, *options);
  verb.add_flag("--json", options->json, "One JSON object")->group("Output");
  verb.callback([options] { print(*options); });
}

}  // namespace tessera::tool
