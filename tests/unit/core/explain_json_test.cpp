#include "core/explain_json.hpp"

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
  return {{"trace", json::parse(to_json(core::explain_row(options)).text())}};
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
  json rows;
  std::int64_t bytes = 0;
  for (const std::int64_t sram : {100, 100000}) {
    const core::TrafficRow row{shape, sram, core::model_traffic(shape, sram)};
    rows.push_back(json::parse(to_json(row).text()));
    bytes = row.traffic.standard.bytes;
  }
  EXPECT_TRUE(rows[0]["tile"].is_null());
  EXPECT_TRUE(rows[0]["tiled"].is_null());
  EXPECT_EQ(rows[0]["fits"], false);
  EXPECT_EQ(rows[1]["fits"], true);
  EXPECT_EQ(rows[1]["standard"]["bytes"], bytes);
}

json ask(json (*answer)(const core::ExplainRequest&), std::string_view words) {
  core::ExplainRequest request;
  request.set_words(words);
  return answer(request);
}
json traffic_of(const core::ExplainRequest& r) { return json::parse(traffic_json(r).text()); }
json trace_of(const core::ExplainRequest& r) { return json::parse(trace_json(r).text()); }
json grid_of(const core::ExplainRequest& r) { return json::parse(grid_json(r).text()); }

TEST(ExplainJson, TheSplitIsThereWhereWorkersAre) {
  EXPECT_FALSE(ask(trace_of, "--n 8").contains("split"));
  const json split = ask(trace_of, "--n 8 --workers 3")["split"];
  EXPECT_EQ(split["parts"].size(), 3u);
  EXPECT_EQ(split["merges"].size(), 2u);
  EXPECT_EQ(split["parts"][1]["keys"], json({2, 4}));
}

TEST(ExplainJson, TilesAreRowsOfCharacters) {
  const json grid = ask(grid_of, "--n 6 --block 2 --grid 3 --window -1,0")["grid"];
  EXPECT_EQ(grid["tiles"], json({"//.", "##/"}));
  EXPECT_TRUE(grid["left"].is_null());
  EXPECT_EQ(grid["right"], 0);
  EXPECT_EQ(grid["visible_pairs"], 21);
}

TEST(ExplainJson, TheRoofIsThereWhereAMachineIs) {
  EXPECT_FALSE(ask(traffic_of, "--n 512").contains("roof"));
  const json all = ask(traffic_of, "--lengths 512,1024 --dtype bf16 --d 128 --gpu h100");
  EXPECT_EQ(all["traffic"].size(), 2u);
  EXPECT_EQ(all["roof"]["flops_per_second"], 989.4e12);
  const json row = all["traffic"][1];
  EXPECT_EQ(row["cache_holds"], true);
  EXPECT_EQ(row["standard"]["time"]["bound"], "memory");
  EXPECT_EQ(double(row["tiled"]["standard_bytes_ratio"]),
            double(row["standard"]["bytes"]) / double(row["tiled"]["bytes"]));
  std::int64_t parts = 0;
  for (const json& part : row["tile_parts"]) parts += std::int64_t(part);
  EXPECT_EQ(row["tile_bytes"], parts);
}

TEST(ExplainJson, TheCatalogueIsComplete) {
  const json all = json::parse(core::catalogue_json().text());
  EXPECT_EQ(all["presets"].size(), 11u);
  EXPECT_EQ(all["machines"].size(), 7u);
  for (const json& machine : all["machines"]) EXPECT_FALSE(machine["source"].empty());
}

}  // namespace
}  // namespace tessera::test
