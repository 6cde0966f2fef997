// Curves over N as an SVG: panels side by side, both axes logarithmic, legible on light and dark.
#pragma once
#include <string>
#include <vector>

namespace tessera::tool {

struct Curve {
  std::string name;
  std::vector<double> y;  // one for each x, > 0
};

struct Panel {
  std::string title, unit;  // "Time of one call", "ms"
  std::vector<Curve> curves;
  bool binary = false;  // bytes: ticks at powers of 2 with KiB, MiB and GiB
};

struct Picture {
  std::string title, subtitle;
  std::string x_title;
  std::vector<double> x;  // ascending powers of two or any positive numbers
  std::vector<Panel> panels;
};

std::string to_svg(const Picture& picture);

}  // namespace tessera::tool
