#include "tools/tessera/bench_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/tessera/bench_memory.hpp"
#include "tools/tessera/command.hpp"

namespace tessera::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const BenchCase& bench, const Measurement& m) {
  const AttentionOptions& o = bench.options;
  std::string name =
      fmt::format("{} {} {}", pass_word(bench.pass), dtype_word(m.dtype), to_text(m.shape));
  if (o.causal) name += " causal";
  if (o.window) name += " window";
  const std::pair<const char*, bool> extras[] = {
      {"softcap", o.softcap.has_value()}, {"bias", !o.bias.empty()},
      {"mask", !o.mask.empty()},          {"alibi", !o.alibi.empty()},
      {"sink", !o.sink.empty()},          {"kv-lengths", !o.kv_lengths.empty()}};
  for (const auto& [word, given] : extras)
    if (given) name += fmt::format(" {}", word);
  return name;
}

std::string command_of(const BenchCase& bench, const Measurement& m) {
  AttentionOptions options = bench.options;
  options.backend = m.asked;
  Command command("bench");
  if (bench.pass != Pass::kForward) command.add("--pass", pass_word(bench.pass));
  command.add(bench.source).add(options).add("--samples", std::to_string(bench.samples));
  const bool versus = bench.backends.size() > 1 && m.asked != TESSERA_BACKEND_STANDARD;
  if (versus) command.add("--against", "standard");
  return command.text();
}

Json or_null(bool known, const Json& value) { return known ? value : Json(); }

// What the speed of a pass is counted in, and of what its share is.
constexpr const char* unit_of(Pass pass) { return pass == Pass::kDecode ? "GB/s" : "GFLOP/s"; }
constexpr const char* share_of(Pass pass) { return pass == Pass::kDecode ? "of reads" : "of peak"; }
double speed(const Measurement& m) { return m.pass == Pass::kDecode ? m.gbs() : m.gflops(); }

std::string percent_text(const Measurement& m) {
  if (m.pass == Pass::kDecode) return fmt::format("{:.1f} %", m.percent_of_read);
  return m.peak.empty() ? "-" : fmt::format("{:.1f} %", m.percent_of_peak());
}

std::string time_text(double ms) {
  return ms < 0.1 ? fmt::format("{:.2f} us", ms * 1000) : fmt::format("{:.3f} ms", ms);
}

}  // namespace

BenchLine make_line(const BenchCase& bench, const Measurement& measured) {
  return {measured, name_of(bench, measured), command_of(bench, measured), {}};
}

std::string to_json(const BenchLine& line) {
  const Measurement& m = line.measured;
  const bool peak = !m.peak.empty();
  Json json{
      {"case", line.name},
      {"backend", m.backend},
      {"target", m.target},
      {"threads", m.threads},
      {"dtype", core::name_of(m.dtype)},
      {"ms_min", m.ms_min},
      {"ms_p50", m.ms_p50},
      {"samples", m.samples},
      {"accepted", m.accepted},
      {"repeats", m.repeats},
      {"flops", m.flops},
      {"gflops", m.gflops()},
      {"percent_of_peak", or_null(peak, m.percent_of_peak())},
      {"peak", or_null(peak, m.peak)},
      {"peak_gflops", or_null(peak, m.peak_gflops)},
      {"extra_bytes", m.extra_bytes},
      {"resident_bytes", or_null(m.resident_bytes.has_value(), m.resident_bytes.value_or(0))}};
  if (m.pass == Pass::kDecode) {
    json["bytes"] = m.bytes;
    json["gbytes_per_s"] = m.gbs();
    json["percent_of_read"] = m.percent_of_read;
    json["read_gbytes_per_s"] = m.read_gbs;
  }
  if (line.over_standard) json["over_standard"] = *line.over_standard;
  json["command"] = line.command;
  if (const char* commit = std::getenv("TESSERA_COMMIT")) json["commit"] = commit;
  return json.dump();
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); bytes /= 1024) ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, kUnits[unit]);
}

void print_bench_header(Pass pass) {
  fmt::print("{:<44} {:<10} {:<8} {:>7} {:>12} {:>12} {:>9} {:>8} {:>12} {:>9}\n", "case",
             "backend", "target", "threads", "best", "median", unit_of(pass), share_of(pass),
             "extra memory", "standard");
}

void print_bench_line(const BenchLine& line) {
  const Measurement& m = line.measured;
  const std::string ratio = line.over_standard ? fmt::format("{:.2f} x", *line.over_standard) : "";
  fmt::print("{:<44} {:<10} {:<8} {:>7} {:>12} {:>12} {:>9.1f} {:>8} {:>12} {:>9}\n", line.name,
             m.backend, m.target, m.threads, time_text(m.ms_min), time_text(m.ms_p50), speed(m),
             percent_text(m), bytes_text(double(m.extra_bytes)), ratio);
}

void print_sweep_header(Pass pass, bool against_standard) {
  fmt::print("{:>8} {:>12} {:>9} {:>8} {:>12}", "N", "tiled", unit_of(pass), share_of(pass),
             "extra memory");
  if (against_standard) fmt::print("   {:>12} {:>12} {:>8}", "standard", "extra memory", "slower");
  fmt::print("\n");
}

void print_sweep_row(const SweepRow& row) {
  const Measurement& m = row.tiled;
  fmt::print("{:>8} {:>12} {:>9.1f} {:>8} {:>12}", m.shape.keys, time_text(m.ms_min), speed(m),
             percent_text(m), bytes_text(double(m.extra_bytes)));
  if (row.standard)
    fmt::print("   {:>12} {:>12} {:>6.2f} x", time_text(row.standard->ms_min),
               bytes_text(double(row.standard->extra_bytes)), row.standard->ms_min / m.ms_min);
  fmt::print("\n");
  std::fflush(stdout);
}

bool report_memory(const BenchLine& line) {
  const Measurement& m = line.measured;
  if (m.memory_agrees()) return true;
  fmt::print(stderr,
             "tessera: {} ({}): the peak resident size of a child grew by {} for this call, the "
             "allocator counted {}; more than {} beyond it is memory that the library hides\n",
             line.name, m.backend, bytes_text(double(*m.resident_bytes)),
             bytes_text(double(m.extra_bytes)), bytes_text(double(kResidentSlack)));
  return false;
}

}  // namespace tessera::tool
