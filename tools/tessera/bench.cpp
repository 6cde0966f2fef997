// tessera bench: time, share of the peak and extra memory of a call, or of a sweep over lengths.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>

#include "tools/tessera/bench_report.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/parse.hpp"
#include "tools/tessera/picture.hpp"
#include "tools/tessera/terminal.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

constexpr Shape kSweepShape{1, 0, 0, 1, 1, 64, 64};
constexpr Shape kDecodeShape{1, 1, 16384, 32, 8, 128, 128};

struct Sweep {
  std::int64_t first, last;
};

struct Bench {
  Source source;
  AttentionOptions options;
  std::optional<Sweep> sweep;
  std::string picture;
  Pass pass = Pass::kForward;
  bool against_standard = false;
  bool json = false;
  int samples = 15;
};

// ---- Options ----

Pass parse_pass(const std::string& text) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kDecode})
    if (text == pass_word(pass)) return pass;
  refuse(fmt::format("--pass is '{}'; give forward, backward or decode", text));
}

void parse_against(const std::string& text) {
  if (text != "standard")
    refuse(fmt::format("--against is '{}'; give standard: the same kernels with the matrix stored",
                       text));
}

int parse_samples(const std::string& text) {
  const std::int64_t n = parse_integer("--samples", text);
  if (n < 1 || n > 10000)
    refuse(fmt::format("--samples is {}; give a number from 1 to 10000", text));
  return int(n);
}

Sweep parse_sweep(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos)
    refuse(fmt::format("--sweep is '{}'; give the first and the last length, such as 1024..16384",
                       text));
  const Sweep sweep{parse_integer("--sweep", text.substr(0, dots)),
                    parse_integer("--sweep", text.substr(dots + 2))};
  if (sweep.first < 1 || sweep.last < sweep.first)
    refuse(fmt::format("--sweep is '{}'; lengths are >= 1, and the last is not below the first",
                       text));
  return sweep;
}

bool has_files(const Source& s) {
  return !s.q.empty() || !s.k.empty() || !s.v.empty() || !s.input.empty();
}

void check(const Bench& bench) {
  if (!bench.picture.empty() && !bench.sweep)
    refuse("--picture draws a sweep; say which lengths, with --sweep 1024..16384");
  if (bench.sweep && has_files(bench.source))
    refuse("--sweep generates data of every length; drop the files, or the sweep");
  if (bench.against_standard && bench.options.backend == TESSERA_BACKEND_STANDARD)
    refuse("--against standard compares with --backend standard, which is the same; drop one");
  if (bench.against_standard && bench.pass == Pass::kBackward)
    refuse(
        "--against standard has no backward pass to compare with; give --pass forward, or drop it");
}

// ---- Measuring ----

BenchCase case_of(const Bench& bench) {
  BenchCase one{bench.source, bench.options, {bench.options.backend}, bench.samples, bench.pass};
  if (bench.pass == Pass::kDecode && !bench.source.shape && !has_files(bench.source))
    one.source.shape = kDecodeShape;
  if (bench.against_standard) one.backends.push_back(TESSERA_BACKEND_STANDARD);
  return one;
}

std::vector<Measurement> measure_shown(const BenchCase& one, const std::string& label,
                                       Meters& meters) {
  Progress progress(label);
  return measure(one, meters, [&](int done, int all) { progress.update(done, all); });
}

// False if the memory of any line is not what the allocator counted.
bool print_lines(const BenchCase& one, const std::vector<Measurement>& all, bool json) {
  bool agrees = true;
  for (const Measurement& m : all) {
    BenchLine line = make_line(one, m);
    if (all.size() > 1) line.over_standard = all.back().ms_min / m.ms_min;
    if (json) fmt::print("{}\n", to_json(line));
    agrees = report_memory(line) && agrees;
    if (!json) print_bench_line(line);
  }
  std::fflush(stdout);
  return agrees;
}

// What the shares are of.
std::string ceiling_text(const Measurement& m) {
  const std::string around =
      fmt::format("on {} thread{}, measured around each sample; {} of {} were undisturbed",
                  m.threads, m.threads == 1 ? "" : "s", m.accepted, m.samples);
  if (m.pass == Pass::kDecode) return fmt::format("reads: {:.1f} GB/s {}", m.read_gbs, around);
  if (m.peak.empty()) return "peak: none is known for this processor";
  return fmt::format("peak: {}, {:.1f} GFLOP/s {}", m.peak, m.peak_gflops, around);
}

ExitCode run_one(const Bench& bench) {
  const BenchCase one = case_of(bench);
  Meters meters;
  const std::vector<Measurement> all = measure_shown(one, "samples", meters);
  if (!bench.json) print_bench_header(bench.pass);
  const bool agrees = print_lines(one, all, bench.json);
  if (!bench.json) fmt::print("{}\n", ceiling_text(all[0]));
  return agrees ? kDone : kWrong;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    refuse(fmt::format("{} could not be written; does its folder exist, and is there room?", path));
}

std::string subtitle_of(const Measurement& m) {
  const Shape& s = m.shape;
  return fmt::format("{} pass, {}, batch {}, {} head{}, D {}; {}, {} thread{}", pass_word(m.pass),
                     core::name_of(m.dtype), s.batch, s.heads, s.heads == 1 ? "" : "s", s.dim,
                     m.target, m.threads, m.threads == 1 ? "" : "s");
}

Picture picture_of(const std::vector<SweepRow>& rows) {
  Picture picture{
      .title = "Exact attention: tiled against standard",
      .subtitle = subtitle_of(rows.back().tiled),
      .x_title = rows.back().tiled.pass == Pass::kDecode ? "keys N" : "sequence length N",
      .x = {},
      .panels = {{"Time of one call", "ms", {{"tiled", {}}}, false},
                 {"Peak extra memory", "", {{"tiled", {}}}, true}}};
  Panel &time = picture.panels[0], &memory = picture.panels[1];
  if (rows.front().standard)
    for (Panel& panel : picture.panels) panel.curves.push_back({"standard", {}});
  for (const SweepRow& row : rows) {
    picture.x.push_back(double(row.tiled.shape.keys));
    time.curves[0].y.push_back(row.tiled.ms_min);
    memory.curves[0].y.push_back(std::max(1., double(row.tiled.extra_bytes)));
    if (!row.standard) continue;
    time.curves[1].y.push_back(row.standard->ms_min);
    memory.curves[1].y.push_back(std::max(1., double(row.standard->extra_bytes)));
  }
  return picture;
}

SweepRow row_of(const std::vector<Measurement>& all) {
  SweepRow row{all[0], {}};
  if (all.size() > 1) row.standard = all[1];
  return row;
}

ExitCode run_sweep(const Bench& bench) {
  BenchCase one = case_of(bench);
  const bool decode = bench.pass == Pass::kDecode;
  Shape shape = bench.source.shape.value_or(decode ? kDecodeShape : kSweepShape);
  std::vector<SweepRow> rows;
  Meters meters;
  bool agrees = true;
  if (!bench.json) print_sweep_header(bench.pass, bench.against_standard);
  for (std::int64_t n = bench.sweep->first; n <= bench.sweep->last; n *= 2) {
    shape.keys = n;
    shape.queries = decode ? 1 : n;
    one.source.shape = shape;
    const std::vector<Measurement> all =
        measure_shown(one, fmt::format("N = {}, samples", n), meters);
    rows.push_back(row_of(all));
    if (bench.json) agrees = print_lines(one, all, true) && agrees;
    if (bench.json) continue;
    print_sweep_row(rows.back());
    for (const Measurement& m : all) agrees = report_memory(make_line(one, m)) && agrees;
  }
  if (!bench.picture.empty()) write_text(bench.picture, to_svg(picture_of(rows)));
  return agrees ? kDone : kWrong;
}

// ---- The verb ----

void add_text(CLI::App& verb, const char* flag, const char* value, const char* help,
              const std::function<void(const std::string&)>& parse) {
  verb.add_option_function<std::string>(flag, parse, help)->type_name(value)->group("Measurement");
}

void add_measurement_options(CLI::App& verb, Bench& bench) {
  add_text(verb, "--pass", "PASS", "forward (the default), backward, or decode: one query",
           [&bench](const std::string& text) { bench.pass = parse_pass(text); });
  add_text(verb, "--against", "WHAT", "standard: the same kernels with the N x N matrix stored",
           [&bench](const std::string& text) {
             parse_against(text);
             bench.against_standard = true;
           });
  add_text(verb, "--samples", "N", "Samples of each, >= 1; without it 15",
           [&bench](const std::string& text) { bench.samples = parse_samples(text); });
  add_text(verb, "--sweep", "FIRST..LAST",
           "Lq = Lk = N (decode: Lk) for N doubling; without --shape B1 H1 D64",
           [&bench](const std::string& text) { bench.sweep = parse_sweep(text); });
  verb.add_option("--picture", bench.picture, "Draw the sweep, as SVG")
      ->type_name("FILE")
      ->group("Output");
  verb.add_flag("--json", bench.json, "One JSON object a line")->group("Output");
}

}  // namespace

void add_bench(CLI::App& root, int& exit_code) {
  CLI::App& verb = *root.add_subcommand("bench", "Time, share of the peak and extra memory");
  const auto bench = std::make_shared<Bench>();
  add_source_options(verb, bench->source);
  add_attention_options(verb, bench->options);
  add_measurement_options(verb, *bench);
  verb.callback([bench, &exit_code] {
    check(*bench);
    exit_code = bench->sweep ? run_sweep(*bench) : run_one(*bench);
  });
}

}  // namespace tessera::tool
