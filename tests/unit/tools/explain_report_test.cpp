#include "tools/tessera/explain_report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera::test {
namespace {

using nlohmann::json;

double number(const json& x) {
  if (x.is_number()) return x;
  if (x == "nan") return std::nan("");
  EXPECT_TRUE(x == "inf" || x == "-inf") << x;
  return x == "inf" ? HUGE_VAL : -HUGE_VAL;
}

void expect_same(const json& list, const std::vector<float>& values) {
  ASSERT_EQ(list.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(number(list[i]), double{values[i]});
}

json as_json(const core::RowOptions& options) {
  return json::parse(to_json(tool::Explanation{core::explain_row(options), {}, "tessera explain"}));
}

// Bit for bit: the web page reads the same numbers from the core itself.
TEST(ExplainJson, NumbersSurviveTheText) {
  const core::RowOptions options{.keys = 33, .block = 5, .dim = 6, .seed = 11};
  const core::RowTrace t = core::explain_row(options);
  const json j = as_json(options)["trace"];
  expect_same(j["q"], t.q);
  expect_same(j["v"], t.v);
  ASSERT_EQ(j["steps"].size(), t.steps.size());
  for (std::size_t i = 0; i < t.steps.size(); ++i) {
    const json& step = j["steps"][i];
    expect_same(step["scores"], t.steps[i].scores);
    expect_same(step["o"], t.steps[i].o);
    expect_same(step["o_over_l"], t.steps[i].normalised);
    EXPECT_EQ(number(step["m_before"]), double{t.steps[i].m_before});
    EXPECT_EQ(number(step["rescale"]), double{t.steps[i].rescale});
    EXPECT_EQ(number(step["l"]), double{t.steps[i].l});
    EXPECT_EQ(number(step["error"]), t.steps[i].error);
  }
  EXPECT_EQ(number(j["exact"]["lse"]), t.exact.lse);
  EXPECT_EQ(number(j["exact"]["out"][0]), t.exact.out[0]);
}

TEST(ExplainJson, WhatJsonCannotSayIsAString) {
  const json first = as_json({})["trace"]["steps"][0];
  EXPECT_EQ(first["m_before"], "-inf");
  const json empty = as_json({.keys = 2, .hidden = {{0, 2}}})["trace"];
  EXPECT_EQ(empty["lse"], "-inf");
  EXPECT_EQ(empty["steps"][0]["skipped"], true);
  const json huge = as_json({.keys = 2, .scores = {200, 100}})["trace"];
  EXPECT_EQ(huge["naive"][0], "nan");
}

TEST(ExplainJson, TrafficThatIsImpossibleIsNull) {
  const core::TrafficShape shape{.queries = 64, .keys = 64};
  tool::Explanation e{core::explain_row({}), {}, ""};
  for (const std::int64_t sram : {100, 100000})
    e.rows.push_back({shape, sram, core::model_traffic(shape, sram)});
  const json rows = json::parse(to_json(e))["traffic"];
  EXPECT_TRUE(rows[0]["tile"].is_null());
  EXPECT_TRUE(rows[0]["tiled"].is_null());
  EXPECT_EQ(rows[0]["fits"], false);
  EXPECT_EQ(rows[1]["fits"], true);
  EXPECT_EQ(rows[1]["standard"]["bytes"], e.rows[1].traffic.standard.bytes);
}

TEST(ExplainText, LongTracesAreShortened) {
  const std::string text = tool::to_text(core::explain_row({.keys = 100, .block = 1}));
  EXPECT_NE(text.find("... 76 more"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 25 + 2 + 5);
}

}  // namespace
}  // namespace tessera::test
