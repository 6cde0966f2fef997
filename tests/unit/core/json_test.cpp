#include "core/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tessera::core {
namespace {

TEST(Json, IsTextInTheOrderGiven) {
  Json list = Json::array();
  EXPECT_EQ(list.text(), "[]");
  list.push_back("a");
  list.push_back({{"x", 1}});
  Json json{{"b", true}, {"a", std::int64_t{-7}}, {"in", {{"list", list}, {"none", Json({})}}}};
  json.add("more", std::string("text"));
  EXPECT_EQ(json.text(),
            R"({"b":true,"a":-7,"in":{"list":["a",{"x":1}],"none":{}},"more":"text"})");
}

TEST(Json, NumbersReadBackAsTheyWere) {
  for (const double x : {0., 1., -2.5, 0.1, 1e-7, 1e300, 0.35355338454246521, 5e-324}) {
    const auto back = nlohmann::json::parse(Json(x).text());
    EXPECT_TRUE(back.is_number_float()) << Json(x).text();
    EXPECT_EQ(back.get<double>(), x);
  }
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).text(), "18446744073709551615");
  for (const double x : {std::nan(""), double{INFINITY}, -double{INFINITY}})
    EXPECT_EQ(Json(x).text(), "null");
}

TEST(Json, EscapesWhatJsonEscapes) {
  std::string every;
  for (char c = 1; c < 127; ++c) every += c;
  every += "\xc3\xa9";
  every += '\0';
  EXPECT_EQ(nlohmann::json::parse(Json(every).text()).get<std::string>(), every);
  EXPECT_EQ(Json("say \"\\\"\n").text(), R"("say \"\\\"\u000a")");
}

}  // namespace
}  // namespace tessera::core
