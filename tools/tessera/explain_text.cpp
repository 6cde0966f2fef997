#include <fmt/format.h>

#include <cmath>

#include "tools/tessera/bench_report.hpp"
#include "tools/tessera/explain_report.hpp"

namespace tessera::tool {
namespace {

// Elements of a row and steps of a trace that a terminal shows.
constexpr std::size_t kShownElements = 4, kShownSteps = 24;

template <class T> std::string row_text(const std::vector<T>& x) {
  std::string text;
  for (std::size_t i = 0; i < std::min(x.size(), kShownElements); ++i)
    text += fmt::format("{:>8.3f}", double(x[i]));
  return text + (x.size() > kShownElements ? " .." : "");
}

// The columns that row_text takes.
std::size_t row_width(std::int64_t elements) {
  const auto count = std::size_t(elements);
  return 8 * std::min(count, kShownElements) + (count > kShownElements ? 3 : 0);
}

std::string keys_text(core::Range keys) {
  return keys.size() == 1 ? fmt::format("{}", keys.begin)
                          : fmt::format("{}-{}", keys.begin, keys.end - 1);
}

// A line of the trace; widths follow from the block and the dimension.
struct Line {
  std::string keys, scores, m, rescale, l, o, normalised, error;

  std::string text(const core::RowOptions& options) const {
    const std::size_t scores_width = std::max<std::size_t>(row_width(options.block), 8);
    const std::size_t width = std::max<std::size_t>(row_width(options.dim), 8);
    std::string line =
        fmt::format("  {:<11} {:<{}} {:>9} {:>8} {:>8}  {:>{}}  {:>{}} {:>9}", keys, scores,
                    scores_width, m, rescale, l, o, width, normalised, width, error);
    return line.erase(line.find_last_not_of(' ') + 1) + "\n";
  }
};

std::string number_text(double x) { return fmt::format("{:.4f}", x); }

Line step_line(const core::RowStep& s) {
  if (s.skipped) return {keys_text(s.keys), "skipped: no key is visible", "", "", "", "", "", ""};
  return {keys_text(s.keys),
          row_text(s.scores),
          number_text(double{s.m}) + (s.grew() ? "*" : " "),
          number_text(double{s.rescale}),
          number_text(double{s.l}),
          row_text(s.o),
          row_text(s.normalised),
          fmt::format("{:.1e}", s.error)};
}

std::string steps_text(const core::RowTrace& t) {
  std::string text;
  const std::size_t count = t.steps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool shown = count <= kShownSteps || i < kShownSteps / 2 || i + kShownSteps / 2 >= count;
    if (shown) text += step_line(t.steps[i]).text(t.options);
    if (!shown && i == kShownSteps / 2)
      text += fmt::format("  ... {} more; --json has all\n", count - kShownSteps);
  }
  return text;
}

std::string pass_text(core::Pass pass) {
  return pass == core::Pass::kForward ? "forward" : "backward";
}

std::string count_text(double x) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t unit = 0;
  for (; x >= 1000 && unit + 1 < std::size(kUnits); x /= 1000) ++unit;
  return fmt::format("{:.{}f}{}", x, x >= 100 || unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string tiled_text(const core::Traffic& t) {
  if (t.tile.queries < 1) return "   no tile fits";
  const std::string tile =
      fmt::format("{} x {}{}", t.tile.queries, t.tile.keys, t.fits ? "" : " !");
  return fmt::format("{:>13} {:>10} {:>10} {:>9.1f} {:>9.1f} {:>10} {:>7.2f} {:>11}", tile,
                     bytes_text(double(t.tiled.bytes)), bytes_text(double(t.resident.bytes)),
                     t.tiled.intensity(), t.resident.intensity(), bytes_text(t.law_bytes),
                     double(t.tiled.bytes) / t.law_bytes, bytes_text(double(t.tiled.allocated)));
}

std::string traffic_line(const TrafficRow& row) {
  const core::Traffic& t = row.traffic;
  return fmt::format("{:>9} {:>9} {:>10} {:>9.1f} {:>11}  |{}\n", row.shape.queries,
                     count_text(double(t.standard.flops)), bytes_text(double(t.standard.bytes)),
                     t.standard.intensity(), bytes_text(double(t.standard.allocated)),
                     tiled_text(t));
}

std::string misfit_text(const TrafficRow& row) {
  const core::Traffic& t = row.traffic;
  if (t.fits) return "";
  if (t.tile.queries < 1)
    return fmt::format("Not even one row of q, k and v at D {} fits in M = {}; give more --sram.\n",
                       row.shape.dim, bytes_text(double(row.sram_bytes)));
  return fmt::format("! The tile takes {}, and M is {}: such a kernel could not run.\n",
                     bytes_text(double(t.tile_bytes)), bytes_text(double(row.sram_bytes)));
}

}  // namespace

std::string to_text(const core::RowTrace& t) {
  const core::RowOptions& o = t.options;
  std::string text =
      fmt::format("Online softmax of one row: {} keys in blocks of {}, d {}, {}, seed {}\n\n",
                  o.keys, o.block, o.dim, core::name_of(o.dtype), o.seed);
  text += Line{"keys", "  scores", "m ", "rescale", "l", "O", "O / l", "error"}.text(o);
  if (o.sink)
    text += Line{"sink",
                 "",
                 number_text(double{t.start.m}) + " ",
                 "",
                 number_text(double{t.start.l}),
                 row_text(t.start.o),
                 "",
                 ""}
                .text(o);
  text += steps_text(t);
  text += Line{"exact",
               "",
               number_text(t.exact.m) + " ",
               "",
               number_text(t.exact.l),
               "",
               row_text(t.exact.out),
               ""}
              .text(o);
  text += Line{"naive", "", "", "", "", "", row_text(t.naive), ""}.text(o);
  return text + fmt::format(
                    "\n  *: the maximum grew; l and O were multiplied by rescale = exp(m "
                    "before - m)\n"
                    "  exact: in two passes over the whole row, in double\n"
                    "  naive: in float32, without the maximum\n"
                    "  lse {:.7g}, exact {:.7g}\n",
                    t.end.lse(), t.exact.lse);
}

std::string to_text(const std::vector<TrafficRow>& rows) {
  if (rows.empty()) return "";
  const TrafficRow& first = rows.front();
  const core::TrafficShape& s = first.shape;
  std::string text = fmt::format(
      "Traffic across slow memory: {}, {} head{}, D {}, elements of {} bytes, fast memory M = "
      "{}\n\n"
      "                         standard              |  tiled\n"
      "{:>9} {:>9} {:>10} {:>9} {:>11}  |{:>13} {:>10} {:>10} {:>9} {:>9} {:>10} {:>7} {:>11}\n",
      pass_text(s.pass), s.heads, s.heads == 1 ? "" : "s", s.dim, s.element_bytes,
      bytes_text(double(first.sram_bytes)), "N", "flops", "bytes", "flop/B", "allocated",
      "tile q x k", "bytes", "resident", "flop/B", "resident", "law", "x law", "allocated");
  for (const TrafficRow& row : rows) text += traffic_line(row);
  text += "\n" + misfit_text(rows.back());
  if (s.pass == core::Pass::kBackward)
    text += "Tiled attention recomputes S = Q K^T: 5 matrix products where standard has 4.\n";
  text += fmt::format(
      "Tiled: every tile of k and v is read again for every tile of queries, Theta(N^2 d^2 / M): "
      "law = N^2 d^2 / M\nwith M = {} elements (Dao et al. 2022, Theorem 2). Resident: what is "
      "read "
      "again stays in a cache of {} a head.\n",
      first.sram_bytes / s.element_bytes, bytes_text(double(rows.back().traffic.resident_bytes)));
  return text;
}

}  // namespace tessera::tool
