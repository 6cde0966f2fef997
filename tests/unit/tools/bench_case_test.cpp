#include "tools/tessera/bench_case.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/tessera/bench_report.hpp"
#include "tools/tessera/failure.hpp"

namespace tessera::test {
namespace {

using tool::Measurement;

TEST(AcceptedTimes, NeedBothBurstsNearTheBest) {
  const std::vector<tool::Sample> samples{
      {1, 100, 100}, {2, 92, 100}, {3, 100, 92}, {4, 93, 93}, {5, 50, 50}};
  EXPECT_EQ(tool::accepted_times(samples, 100), (std::vector<double>{1, 4}));
  // Where no peak is known, bursts are 0 and all samples count.
  EXPECT_EQ(tool::accepted_times({{1, 0, 0}, {2, 0, 0}}, 0).size(), 2u);
}

TEST(SteadySamples, HaveTwoBurstsThatAgree) {
  const std::vector<tool::Sample> samples{{1, 60, 60}, {2, 60, 35}, {3, 35, 60}, {4, 35, 34}};
  const std::vector<tool::Sample> steady = tool::steady_samples(samples);
  ASSERT_EQ(steady.size(), 2u);
  EXPECT_EQ(steady[0].ms, 1);
  EXPECT_EQ(steady[1].ms, 4);  // the slower rate is a rate too
  EXPECT_EQ(tool::steady_samples({{1, 60, 35}, {2, 35, 60}}).size(), 2u);
}

TEST(Median, IsTheMiddleOne) {
  EXPECT_EQ(tool::median({3, 1, 2}), 2);
  EXPECT_EQ(tool::median({4, 1, 3, 2}), 3);
  EXPECT_EQ(tool::median({7}), 7);
}

tool::BenchCase small_case() {
  tool::BenchCase bench;
  bench.source.shape = tool::Shape{1, 64, 64, 2, 1, 8, 16};
  bench.options.threads = 1;
  bench.backends = {TESSERA_BACKEND_AUTO, TESSERA_BACKEND_STANDARD};
  bench.samples = 3;
  return bench;
}

TEST(Measure, EveryBackendTheSameNumberOfTimes) {
  int last = 0, all = 0;
  tool::Meters meters;
  const auto measured = tool::measure(small_case(), meters, [&](int done, int total) {
    EXPECT_EQ(done, last + 1);
    last = done;
    all = total;
  });
  EXPECT_EQ(last, 6);
  EXPECT_EQ(all, 6);
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_EQ(measured[0].backend, "cpu");
  EXPECT_EQ(measured[1].backend, "standard");
  for (const Measurement& m : measured) {
    EXPECT_EQ(m.samples, 3);
    EXPECT_EQ(m.threads, 1);
    EXPECT_EQ(m.flops, 2. * 64 * 64 * 2 * (8 + 16));
    EXPECT_GT(m.ms_min, 0);
    EXPECT_LE(m.ms_min, m.ms_p50);
    EXPECT_GT(m.repeats, 1);  // one such call takes microseconds
    EXPECT_DOUBLE_EQ(m.gflops(), m.flops / m.ms_min * 1e-6);
  }
  EXPECT_GT(measured[1].extra_bytes, 2u * 64 * 64 * 4);  // the matrices of both heads
}

TEST(Measure, DecodingAsAShareOfReading) {
  tool::BenchCase bench = small_case();
  bench.source.shape = tool::Shape{2, 1, 96, 4, 2, 8, 24};
  bench.options.kv_lengths = "10,96";
  bench.options.dtype = core::DType::kBfloat16;
  bench.backends = {TESSERA_BACKEND_AUTO};
  bench.pass = tool::Pass::kDecode;
  bench.samples = 1;
  tool::Meters meters;
  const auto measured = tool::measure(bench, meters, [](int, int) {});
  EXPECT_FALSE(meters.peak.has_value());
  EXPECT_TRUE(meters.reads.has_value());
  ASSERT_EQ(measured.size(), 1u);
  const Measurement& m = measured[0];
  EXPECT_EQ(m.bytes, 2. * (10 + 96) * 2 * (8 + 24));
  EXPECT_EQ(m.flops, 2. * (10 + 96) * 4 * (8 + 24));
  EXPECT_DOUBLE_EQ(m.gbs(), m.bytes / m.ms_min * 1e-6);
  EXPECT_GT(m.read_gbs, 0);
  EXPECT_DOUBLE_EQ(m.percent_of_read, 100 * m.gbs() / m.read_gbs);
  EXPECT_TRUE(m.peak.empty());
}

TEST(Measure, DecodingIsOneQueryOfEachSequence) {
  tool::BenchCase bench = small_case();
  bench.source.shape = tool::Shape{1, 2, 8, 2, 1, 4, 4};
  bench.pass = tool::Pass::kDecode;
  tool::Meters meters;
  try {
    tool::measure(bench, meters, [](int, int) {});
    FAIL() << "two queries are not decoding";
  } catch (const tool::Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("sequence 0 has 2"), std::string::npos);
  }
}

TEST(BenchJson, HasTheFieldsThatAreDocumented) {
  Measurement m;
  m.backend = "cpu";
  m.target = "avx2";
  m.threads = 2;
  m.flops = 4e9;
  m.ms_min = 20;
  m.ms_p50 = 25;
  m.peak = "float32 FMA";
  m.peak_gflops = 250;
  m.extra_bytes = 1000;
  m.resident_bytes = 2000;
  tool::BenchLine line{m, "a case", "tessera bench", 3.5};
  const auto json = nlohmann::json::parse(to_json(line));
  EXPECT_EQ(json.at("case"), "a case");
  EXPECT_EQ(json.at("gflops"), 200);
  EXPECT_EQ(json.at("percent_of_peak"), 80);
  EXPECT_EQ(json.at("peak"), "float32 FMA");
  EXPECT_EQ(json.at("extra_bytes"), 1000);
  EXPECT_EQ(json.at("resident_bytes"), 2000);
  EXPECT_EQ(json.at("over_standard"), 3.5);
  line.measured.peak.clear();  // a processor of which no peak is known
  line.measured.resident_bytes.reset();
  const auto bare = nlohmann::json::parse(to_json(line));
  for (const char* key : {"percent_of_peak", "peak", "peak_gflops", "resident_bytes"})
    EXPECT_TRUE(bare.at(key).is_null()) << key;
}

TEST(BenchJson, OfDecodingSaysWhatWasRead) {
  Measurement m;
  m.pass = tool::Pass::kDecode;
  m.bytes = 1e9;
  m.ms_min = 20;
  m.percent_of_read = 80;
  m.read_gbs = 60;
  const auto json = nlohmann::json::parse(tool::to_json({m, "a case", "tessera bench", {}}));
  EXPECT_EQ(json.at("bytes"), 1e9);
  EXPECT_EQ(json.at("gbytes_per_s"), 50);
  EXPECT_EQ(json.at("percent_of_read"), 80);
  EXPECT_EQ(json.at("read_gbytes_per_s"), 60);
  EXPECT_TRUE(json.at("peak").is_null());
  m.pass = tool::Pass::kForward;
  EXPECT_FALSE(nlohmann::json::parse(tool::to_json({m, "", "", {}})).contains("bytes"));
}

TEST(BenchJson, CommandRepeatsTheCase) {
  tool::BenchCase bench = small_case();
  bench.options.causal = true;
  Measurement m;
  m.asked = TESSERA_BACKEND_AUTO;
  m.shape = *bench.source.shape;
  const tool::BenchLine line = make_line(bench, m);
  EXPECT_EQ(line.name, "forward f32 1,64,64,2,1,8,16 causal");
  EXPECT_NE(line.command.find("tessera bench --shape 1,64,64,2,1,8,16"), std::string::npos);
  EXPECT_NE(line.command.find("--causal"), std::string::npos);
  EXPECT_NE(line.command.find("--samples 3 --against standard"), std::string::npos);
  m.asked = TESSERA_BACKEND_STANDARD;
  EXPECT_NE(make_line(bench, m).command.find("--backend standard"), std::string::npos);
}

TEST(BytesText, HasThreeDigits) {
  EXPECT_EQ(tool::bytes_text(0), "0 B");
  EXPECT_EQ(tool::bytes_text(1023), "1023 B");
  EXPECT_EQ(tool::bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(tool::bytes_text(300. * 1024), "300 KiB");
  EXPECT_EQ(tool::bytes_text(double(std::uint64_t{1} << 30)), "1.0 GiB");
}

}  // namespace
}  // namespace tessera::test
