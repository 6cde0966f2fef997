#include <gtest/gtest.h>

#include <regex>
#include <vector>

#include "tools/tessera/picture.hpp"

namespace tessera::test {
namespace {

tool::Picture doubling() {
  tool::Picture p{.title = "a < b & c", .subtitle = "sub", .x_title = "N", .x = {}, .panels = {}};
  tool::Panel panel{.title = "Time", .unit = "ms", .curves = {{"linear", {}}, {"square", {}}}};
  for (double n = 1024; n <= 16384; n *= 2) {
    p.x.push_back(n);
    panel.curves[0].y.push_back(n / 1000);
    panel.curves[1].y.push_back(n * n / 1e6);
  }
  p.panels = {panel, panel};
  p.panels[1].binary = true;
  for (tool::Curve& curve : p.panels[1].curves)
    for (double& y : curve.y) y *= 1 << 20;
  return p;
}

struct Point {
  double x, y;
};

// The points of each polyline, in order.
std::vector<std::vector<Point>> polylines(const std::string& svg) {
  std::vector<std::vector<Point>> all;
  const std::regex line("<polyline[^>]*points='([^']*)'"), pair("([0-9.]+),([0-9.]+)");
  for (std::sregex_iterator l(svg.begin(), svg.end(), line), end; l != end; ++l) {
    const std::string points = (*l)[1];
    all.emplace_back();
    for (std::sregex_iterator p(points.begin(), points.end(), pair); p != end; ++p)
      all.back().push_back({std::stod((*p)[1]), std::stod((*p)[2])});
  }
  return all;
}

TEST(Picture, PowersAreStraightLinesOfTheirSlope) {
  const auto lines = polylines(to_svg(doubling()));
  ASSERT_EQ(lines.size(), 4u);
  for (const std::size_t panel : {0u, 2u}) {
    const auto &linear = lines[panel], &square = lines[panel + 1];
    ASSERT_EQ(linear.size(), 5u);
    for (std::size_t i = 1; i < 5; ++i) {
      EXPECT_NEAR(linear[i].x - linear[i - 1].x, (linear[4].x - linear[0].x) / 4, .21);
      EXPECT_NEAR(linear[i - 1].y - linear[i].y, (linear[0].y - linear[4].y) / 4, .21);
      EXPECT_NEAR(square[i - 1].y - square[i].y, 2 * (linear[i - 1].y - linear[i].y), .41);
    }
  }
}

TEST(Picture, TextIsEscapedAndAxesAreLabelled) {
  const std::string svg = to_svg(doubling());
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  for (const char* text : {">1K<", ">16K<", ">10 ms<", ">1 GiB<", ">linear<", ">square<", ">N<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(Picture, OnePointIsEnough) {
  tool::Picture p = doubling();
  p.x.resize(1);
  for (tool::Panel& panel : p.panels)
    for (tool::Curve& curve : panel.curves) curve.y.resize(1);
  const std::string svg = to_svg(p);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(polylines(svg).size(), 4u);
}

}  // namespace
}  // namespace tessera::test
