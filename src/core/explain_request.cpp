#include "core/explain_request.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "core/explain_presets.hpp"
#include "core/explain_words.hpp"

namespace tessera::core {
namespace {

// Shared memory and L1 of one SM of an A100 (Dao et al. 2022, section 2.1).
constexpr std::int64_t kSramBytes = 192 * 1024;
// Where --n and --d are not given, the trace takes a row that one can read, and the model lengths
// and a dimension that models have.
constexpr std::int64_t kModelLengths[] = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
constexpr std::int64_t kModelDim = 64;

using Text = std::string_view;

// A name of one of `all`, or a failure that lists them.
template <class Row>
void require_known(const Row* found, Text flag, Text text, std::span<const Row> all) {
  if (found) return;
  std::string sentence = std::string(flag) + " is '" + std::string(text) + "'; it is one of";
  for (const Row& row : all) sentence.append(&row == all.data() ? " " : ", ").append(row.name);
  fail(Status::kInvalidArgument, sentence);
}

void use_preset(ExplainRequest& r, Text text) {
  const ExplainPreset* preset = find_preset(text);
  require_known(preset, "--preset", text, explain_presets());
  r.set_words(preset->words);
}

void use_machine(ExplainRequest& r, Text text) {
  r.machine = find_machine(text);
  require_known(r.machine, "--gpu", text, machines());
}

constexpr ExplainOption kOptions[] = {
    {"Both", "--n", "N", "Keys; without it 8 in the trace, 1K to 64K in the model",
     [](ExplainRequest& r, Text text) { r.n = words::positive("--n", text); }},
    {"Both", "--d", "D", "Head dimension; without it 4 in the trace, 64 in the model",
     [](ExplainRequest& r, Text text) { r.d = words::positive("--d", text); }},
    {"Both", "--dtype", "T", "f32 (the default), f16 or bf16",
     [](ExplainRequest& r, Text text) { r.row.dtype = words::dtype(text); }},
    {"Trace", "--preset", "NAME", "A case that teaches, as the options that --list shows",
     use_preset},
    {"Trace", "--block", "N", "Keys of one step; without it 2",
     [](ExplainRequest& r, Text text) { r.row.block = words::positive("--block", text); }},
    {"Trace", "--seed", "N", "Seed of q, k and v; without it 0",
     [](ExplainRequest& r, Text text) { r.row.seed = words::seed(text); }},
    {"Trace", "--scores", "LIST", "The scores, one for each key, in place of q and k",
     [](ExplainRequest& r, Text text) { r.row.scores = words::numbers("--scores", text); }},
    {"Trace", "--gain", "X", "Multiplies the scores; without it 1",
     [](ExplainRequest& r, Text text) { r.row.gain = words::number("--gain", text); }},
    {"Trace", "--ramp", "X", "Adds X j to the score of key j",
     [](ExplainRequest& r, Text text) { r.row.ramp = words::number("--ramp", text); }},
    {"Trace", "--shift", "X", "Adds X to every score",
     [](ExplainRequest& r, Text text) { r.row.shift = words::number("--shift", text); }},
    {"Trace", "--hide", "FIRST[,LAST]", "Hide keys, as a mask does; may be given again",
     [](ExplainRequest& r, Text text) { r.row.hidden.push_back(words::hidden(text)); }},
    {"Trace", "--row", "I", "Query I of a band: causal, unless --window says otherwise",
     [](ExplainRequest& r, Text text) { r.query = Band::clamp(words::integer("--row", text)); }},
    {"Trace", "--sink", "X", "A logit without a value that joins the denominator",
     [](ExplainRequest& r, Text text) { r.row.sink = words::number("--sink", text); }},
    {"Trace", "--workers", "P", "Split the blocks over P workers and merge their states",
     [](ExplainRequest& r, Text text) { r.workers = words::positive("--workers", text); }},
    {"Tiles", "--grid", "ROWS", "All tiles of ROWS queries and --block keys",
     [](ExplainRequest& r, Text text) { r.grid_rows = words::positive("--grid", text); }},
    {"Tiles", "--queries", "N",
     "Queries; the last one is aligned with the last key; without it --n",
     [](ExplainRequest& r, Text text) { r.queries = words::positive("--queries", text); }},
    {"Tiles", "--window", "L,R",
     "Keys visible before and after the diagonal, -1 for all; -1,0: causal",
     [](ExplainRequest& r, Text text) { r.window = words::window(text); }},
    {"Traffic model", "--lengths", "LIST", "Lengths of the model; without it --n",
     [](ExplainRequest& r, Text text) { r.lengths = words::lengths(text); }},
    {"Traffic model", "--sram", "BYTES",
     "Fast memory M; without it that of --gpu, or 196608, one SM of an A100",
     [](ExplainRequest& r, Text text) { r.sram_bytes = words::positive("--sram", text); }},
    {"Traffic model", "--tile", "ROWS,KEYS", "The tile; without it the largest that fits in M",
     [](ExplainRequest& r, Text text) { r.tile = words::tile(text); }},
    {"Traffic model", "--heads", "N", "Heads; without it 1",
     [](ExplainRequest& r, Text text) { r.heads = words::positive("--heads", text); }},
    {"Traffic model", "--batch", "N", "Batch; without it 1",
     [](ExplainRequest& r, Text text) { r.batch = words::positive("--batch", text); }},
    {"Traffic model", "--pass", "PASS", "forward (the default) or backward",
     [](ExplainRequest& r, Text text) { r.pass = words::pass(text); }},
    {"Roofline", "--gpu", "NAME", "A machine that --list names: its rates, cache and M",
     use_machine},
    {"Roofline", "--peak", "FLOPS", "Operations a second, in place of the machine's",
     [](ExplainRequest& r, Text text) { r.flops_per_second = words::rate("--peak", text); }},
    {"Roofline", "--bandwidth", "BYTES", "Bytes a second of slow memory, in place of the machine's",
     [](ExplainRequest& r, Text text) { r.bytes_per_second = words::rate("--bandwidth", text); }},
    {"Roofline", "--cache", "BYTES", "The cache before slow memory, in place of the machine's",
     [](ExplainRequest& r, Text text) { r.cache_bytes = words::positive("--cache", text); }},
};

std::int64_t product(std::int64_t heads, std::int64_t batch) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (heads <= kMost && batch <= kMost) return heads * batch;
  fail(Status::kInvalidArgument, "heads and batch are " + std::to_string(heads) + " and " +
                                     std::to_string(batch) + "; each is at most 2^31");
}

TrafficRow traffic_row(const ExplainRequest& r, std::int64_t n) {
  const std::int64_t d = r.d.value_or(kModelDim);
  TrafficRow row{
      .shape = {.heads = product(r.heads, r.batch),
                .queries = n,
                .keys = n,
                .dim = d,
                .value_dim = d,
                .element_bytes = size_of(r.row.dtype),
                .pass = r.pass},
      .sram_bytes = r.sram_bytes.value_or(r.machine ? r.machine->sram_bytes : kSramBytes),
      .traffic = {},
      .roof = r.roof()};
  row.traffic = model_traffic(row.shape, row.sram_bytes, r.tile);
  return row;
}

}  // namespace

std::span<const ExplainOption> explain_options() { return kOptions; }

void ExplainRequest::set(std::string_view flag, std::string_view text) {
  for (const ExplainOption& option : kOptions)
    if (flag == option.flag) return option.read(*this, text);
  fail(Status::kInvalidArgument, std::string(flag) + " is no option of explain");
}

void ExplainRequest::set_words(std::string_view words) {
  const auto next = [&words] {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    return word;
  };
  while (!words.empty()) {
    const std::string_view flag = next();
    set(flag, next());
  }
}

RowTrace ExplainRequest::trace() const {
  RowOptions o = row;
  o.keys = n.value_or(o.scores.empty() ? o.keys : static_cast<std::int64_t>(o.scores.size()));
  o.dim = d.value_or(o.dim);
  o.row = query.value_or(0);
  if (query) o.band.right = 0;
  if (window) {
    o.band = *window;
    o.row = query.value_or(o.keys - 1);
  }
  return explain_row(o);
}

TileGrid ExplainRequest::grid() const {
  const std::int64_t keys = n.value_or(row.keys);
  GridOptions o{.queries = queries.value_or(keys),
                .keys = keys,
                .rows = grid_rows,
                .columns = row.block,
                .band = window.value_or(Band{})};
  o.band.offset = o.keys - o.queries;
  return tile_grid(o);
}

std::vector<TrafficRow> ExplainRequest::traffic() const {
  std::vector<std::int64_t> sizes = lengths;
  if (sizes.empty() && n) sizes = {*n};
  if (sizes.empty()) sizes.assign(std::begin(kModelLengths), std::end(kModelLengths));
  std::vector<TrafficRow> rows;
  for (const std::int64_t size : sizes) rows.push_back(traffic_row(*this, size));
  return rows;
}

std::optional<Roof> ExplainRequest::roof() const {
  const double peak = !machine                  ? 0
                      : size_of(row.dtype) == 4 ? machine->flops_32
                                                : machine->flops_16;
  const Roof roof{flops_per_second.value_or(peak),
                  bytes_per_second.value_or(machine ? machine->bytes_per_second : 0),
                  cache_bytes.value_or(machine ? machine->cache_bytes : 0)};
  if (roof.flops_per_second > 0 && roof.bytes_per_second > 0) return roof;
  if (!flops_per_second && !bytes_per_second && !cache_bytes) return {};
  fail(Status::kInvalidArgument,
       "a roofline needs both rates; give --gpu, or --peak and --bandwidth");
}

}  // namespace tessera::core
