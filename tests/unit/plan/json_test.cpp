#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "plan/plan.hpp"
#include "unit/plan/problems.hpp"

namespace tessera::plan {
namespace {

using core::Problem;
using nlohmann::json;
using test::present;
using test::problem_of;

constexpr Device kDevice{.target = "avx2", .lanes = 8, .threads = 2};
constexpr test::Shape kShape{
    .batch = 2, .queries = 512, .keys = 300, .heads = 4, .kv_heads = 2, .dim = 64, .value_dim = 64};

constexpr const char* kGoldenProblem =
    R"({"dtype":"float32","batch":2,"queries":512,"keys":300,"heads":4,"kv_heads":2,"dim":64,)"
    R"("value_dim":64,"scale":0.125,"softcap":0.0,"left":"unbounded","right":0,)"
    R"("alignment":"bottom-right","options":["lse","kv_lengths"]})";

Problem causal() {
  static std::int32_t lengths[] = {200, 300};
  Problem p = problem_of(kShape);
  p.right = 0;
  p.alignment = core::Alignment::kBottomRight;
  p.lse = present();
  p.kv_lengths = test::integers(lengths);
  return p;
}

TEST(PlanJson, GoldenProblem) { EXPECT_EQ(to_json(causal()), kGoldenProblem); }

TEST(PlanJson, GoldenPlan) {
  EXPECT_EQ(to_json(make_plan(causal(), Backend::kAuto, kDevice), causal()),
            R"({"backend":"cpu","why_backend":"the fastest that can do the call","target":"avx2",)"
            R"("arithmetic":"float32","why_arithmetic":"q, k and v are not bfloat16",)"
            R"("kernel":"tiled","why_kernel":"the queries of a head fill strips","splits":1,)"
            R"("workers":2,"tasks":128,"task_queries":32,"task_order":"longest sequence first",)"
            R"("tile_queries":16,"tile_keys":96,)"
            R"("packing":"none","why_packing":"k and v are read as they lie",)"
            R"("worker_bytes":23936,"shared_bytes":128,"workspace_bytes":48000,"problem":)" +
                std::string(kGoldenProblem) + "}");
}

TEST(PlanJson, GoldenReference) {
  EXPECT_EQ(
      to_json(make_plan(causal(), Backend::kReference, kDevice), causal()),
      R"({"backend":"reference","why_backend":"asked for","target":"double precision",)"
      R"("arithmetic":"double","why_arithmetic":"the reference computes in double precision",)"
      R"("kernel":"tiled","why_kernel":"","splits":1,)"
      R"("workers":1,"tasks":4096,"task_queries":1,"task_order":"head by head",)"
      R"("tile_queries":1,"tile_keys":300,)"
      R"("packing":"none","why_packing":"k and v are read as they lie",)"
      R"("worker_bytes":0,"shared_bytes":0,"workspace_bytes":0,"problem":)" +
          std::string(kGoldenProblem) + "}");
}

TEST(PlanJson, NamesOfBackendsAndPackings) {
  Plan plan;
  const auto field = [&](const char* key) {
    return json::parse(to_json(plan, causal())).at(key).get<std::string>();
  };
  for (const auto& [backend, name] : {std::pair{Backend::kCpu, "cpu"},
                                      {Backend::kReference, "reference"},
                                      {Backend::kStandard, "standard"}}) {
    plan.backend = backend;
    EXPECT_EQ(field("backend"), name);
  }
  for (const auto& [packing, name] :
       {std::pair{Packing::kNone, "none"}, {Packing::kHead, "head"}, {Packing::kBlock, "block"}}) {
    plan.packing = packing;
    EXPECT_EQ(field("packing"), name);
  }
}

TEST(PlanJson, BandAndAlignment) {
  Problem p = problem_of(kShape);
  json text = json::parse(to_json(p));
  EXPECT_EQ(text.at("left"), "unbounded");
  EXPECT_EQ(text.at("right"), "unbounded");
  EXPECT_EQ(text.at("alignment"), "top-left");
  EXPECT_FALSE(text.contains("offset"));
  p.left = 128, p.right = core::Band::kUnbounded - 1;
  p.alignment = core::Alignment::kOffset, p.offset = -7;
  text = json::parse(to_json(p));
  EXPECT_EQ(text.at("left"), 128);
  EXPECT_EQ(text.at("right"), core::Band::kUnbounded - 1);
  EXPECT_EQ(text.at("alignment"), "offset");
  EXPECT_EQ(text.at("offset"), -7);
  p.alignment = core::Alignment::kOffsets;
  text = json::parse(to_json(p));
  EXPECT_EQ(text.at("alignment"), "offsets");
  EXPECT_FALSE(text.contains("offset"));
}

TEST(PlanJson, EveryOptionHasItsName) {
  const std::pair<const char*, core::Tensor Problem::*> all[] = {
      {"lse", &Problem::lse},
      {"mask", &Problem::mask},
      {"bias", &Problem::bias},
      {"alibi", &Problem::alibi},
      {"sink", &Problem::sink},
      {"kv_lengths", &Problem::kv_lengths},
      {"kv_starts", &Problem::kv_starts},
      {"cache_batch_idx", &Problem::cache_batch_idx},
      {"cu_seqlens_q", &Problem::cu_seqlens_q},
      {"cu_seqlens_k", &Problem::cu_seqlens_k},
      {"seqused_q", &Problem::seqused_q},
      {"seqused_k", &Problem::seqused_k},
      {"block_table", &Problem::block_table},
      {"state_out", &Problem::state_out},
  };
  EXPECT_EQ(json::parse(to_json(problem_of(kShape))).at("options"), json::array());
  for (const auto& [name, option] : all) {
    Problem p = problem_of(kShape);
    p.*option = present();
    EXPECT_EQ(json::parse(to_json(p)).at("options"), json::array({name}));
  }
}

TEST(PlanJson, TypesAndNumbers) {
  Problem p = problem_of(kShape, core::DType::kBfloat16);
  p.softcap = 30;
  EXPECT_FALSE(json::parse(to_json(p)).contains("dropout_p"));
  p.dropout.p = 0.25f;
  const json text = json::parse(to_json(p));
  EXPECT_EQ(text.at("dtype"), "bfloat16");
  EXPECT_EQ(text.at("softcap"), 30.);
  EXPECT_EQ(text.at("dropout_p"), 0.25);
}

}  // namespace
}  // namespace tessera::plan
