#include "tools/tessera/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::tool {
namespace {

// Pixels.
constexpr double kPanelWidth = 480, kPlotHeight = 280, kLeft = 76, kRight = 24, kTop = 104,
                 kBottom = 64, kKeyWidth = 96;

// Blue and vermilion of Okabe and Ito (2008), which every eye tells apart; darker for text on
// white, lighter on dark.
constexpr const char* kStyle =
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#1f2328}"
    ".paper{fill:#ffffff}.title{font-size:18px;font-weight:600}.sub{font-size:13px}"
    ".head{font-size:14px;font-weight:600}.tick{font-size:12px}.grid{stroke:#d0d7de}"
    ".axis{stroke:#57606a}.c0{stroke:#0072b2;fill:#0072b2}.c1{stroke:#c44e00;fill:#c44e00}"
    ".line{fill:none;stroke-width:2.5;stroke-linejoin:round}.dot{stroke:none}"
    ".name{font-size:13px;font-weight:600;stroke:none}.c0 .name{fill:#0072b2}.c1 "
    ".name{fill:#c44e00}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.paper{fill:#0d1117}.grid{stroke:#30363d}"
    ".axis{stroke:#9198a1}.c0{stroke:#56b4e9;fill:#56b4e9}.c1{stroke:#ff9d57;fill:#ff9d57}"
    ".c0 .name{fill:#56b4e9}.c1 .name{fill:#ff9d57}}";

// A position in pixels for values of a logarithmic axis.
struct Axis {
  double low, high;   // values
  double begin, end;  // pixels

  double operator()(double value) const {
    return begin + (end - begin) * std::log(value / low) / std::log(high / low);
  }
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else
      safe += c;
  }
  return safe;
}

std::string count_text(double n) {
  const bool kilo = n >= 1024 && std::fmod(n, 1024) == 0;
  return kilo ? fmt::format("{}K", n / 1024) : fmt::format("{}", n);
}

std::string bytes_tick(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); bytes /= 1024) ++unit;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

// Ticks are powers of the base; every other one is left out until few enough are left.
std::vector<double> ticks(double low, double high, double base) {
  std::vector<double> all;
  for (; all.empty() || all.size() > 7; base *= base) {
    all.clear();
    const double first = std::ceil(std::log(low) / std::log(base) - 1e-9);
    for (double t = std::pow(base, first); t <= high * (1 + 1e-9); t *= base) all.push_back(t);
    if (all.size() < 2) break;
  }
  return all;
}

Axis y_axis(const Panel& panel) {
  double low = HUGE_VAL, high = 0;
  for (const Curve& curve : panel.curves)
    for (const double y : curve.y) {
      low = std::min(low, y);
      high = std::max(high, y);
    }
  const double base = panel.binary ? 4 : 10;
  const auto whole = [base](double y, auto round) {
    return std::pow(base, round(std::log(y) / std::log(base)));
  };
  low = whole(low, [](double x) { return std::floor(x); });
  high = std::max(whole(high, [](double x) { return std::ceil(x); }), low * base);
  return {low, high, kTop + kPlotHeight, kTop};
}

std::string tick_text(const Panel& panel, double value) {
  if (panel.binary) return bytes_tick(value);
  const bool seconds = panel.unit == "ms" && value >= 1000;
  return seconds ? fmt::format("{:g} s", value / 1000) : fmt::format("{:g} {}", value, panel.unit);
}

std::string horizontal_grid(const Panel& panel, const Axis& y, double left) {
  std::string svg;
  for (const double value : ticks(y.low, y.high, panel.binary ? 4 : 10)) {
    const double at = y(value);
    svg += fmt::format("<path class='grid' d='M{:.1f} {:.1f}h{}'/>", left, at,
                       kPanelWidth - kLeft - kRight);
    svg += fmt::format("<text class='tick' x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n",
                       left - 8, at + 4, tick_text(panel, value));
  }
  return svg;
}

std::string vertical_grid(const Picture& picture, const Axis& x) {
  const std::size_t step = (picture.x.size() + 7) / 8;
  std::string svg;
  for (std::size_t i = 0; i < picture.x.size(); i += step) {
    const double at = x(picture.x[i]);
    svg += fmt::format("<path class='grid' d='M{:.1f} {}v{}'/>", at, kTop, kPlotHeight);
    svg += fmt::format("<text class='tick' x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", at,
                       kTop + kPlotHeight + 20, count_text(picture.x[i]));
  }
  return svg;
}

std::string curve_svg(const Picture& picture, const Curve& curve, const Axis& x, const Axis& y) {
  std::string points, dots;
  const std::size_t count = std::min(picture.x.size(), curve.y.size());
  for (std::size_t i = 0; i < count; ++i) {
    points += fmt::format("{:.1f},{:.1f} ", x(picture.x[i]), y(curve.y[i]));
    dots += fmt::format("<circle class='dot' cx='{:.1f}' cy='{:.1f}' r='4'/>", x(picture.x[i]),
                        y(curve.y[i]));
  }
  return fmt::format("<polyline class='line' points='{}'/>{}\n", points, dots);
}

// A stroke in the curve's colour and its name, ending at `right`.
std::string key_svg(const Curve& curve, double right) {
  constexpr double kNameWidth = 68, kStroke = 22;
  const double begin = right - kNameWidth;
  return fmt::format(
      "<path class='line' d='M{:.1f} {}h{}'/><text class='name' x='{:.1f}' y='{}'>{}</text>\n",
      begin - kStroke - 6, kTop - 18, kStroke, begin, kTop - 14, escaped(curve.name));
}

std::string panel_svg(const Picture& picture, const Panel& panel, double offset) {
  const double left = offset + kLeft, right = offset + kPanelWidth - kRight;
  const Axis x{picture.x.front(), std::max(picture.x.back(), picture.x.front() * 2), left, right};
  const Axis y = y_axis(panel);
  std::string svg = horizontal_grid(panel, y, left) + vertical_grid(picture, x);
  svg += fmt::format("<path class='axis' fill='none' d='M{} {}v{}h{}'/>\n", left, kTop, kPlotHeight,
                     right - left);
  svg += fmt::format("<text class='head' x='{}' y='{}'>{}</text>\n", left, kTop - 14,
                     escaped(panel.title));
  svg += fmt::format("<text class='tick' x='{}' y='{}' text-anchor='middle'>{}</text>\n",
                     (left + right) / 2, kTop + kPlotHeight + 44, escaped(picture.x_title));
  const std::size_t count = panel.curves.size();
  for (std::size_t i = 0; i < count; ++i)
    svg +=
        fmt::format("<g class='c{}'>{}{}</g>\n", i % 2, curve_svg(picture, panel.curves[i], x, y),
                    key_svg(panel.curves[i], right - kKeyWidth * double(count - 1 - i)));
  return svg;
}

}  // namespace

std::string to_svg(const Picture& picture) {
  const double width = kPanelWidth * double(picture.panels.size());
  const double height = kTop + kPlotHeight + kBottom;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "role='img'>\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect class='paper' width='{0}' height='{1}'/>\n",
      width, height, escaped(picture.title), kStyle);
  svg += fmt::format("<text class='title' x='24' y='34'>{}</text>\n", escaped(picture.title));
  svg += fmt::format("<text class='sub' x='24' y='56'>{}</text>\n", escaped(picture.subtitle));
  for (std::size_t i = 0; i < picture.panels.size(); ++i)
    svg += panel_svg(picture, picture.panels[i], kPanelWidth * double(i));
  return svg + "</svg>\n";
}

}  // namespace tessera::tool
