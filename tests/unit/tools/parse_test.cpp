#include "tools/tessera/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kBadInput);
    return failure.what();
  }
  return "accepted";
}

TEST(Parse, Integers) {
  EXPECT_EQ(parse_integer("--x", "-7"), -7);
  EXPECT_THAT(parse_integers("--x", "5,0,-1"), ElementsAre(5, 0, -1));
  for (const char* bad : {"", "5,", ",5", "1.5", "5 ", "0x10", "9223372036854775808", "a"}) {
    EXPECT_THAT(refusal([&] { parse_integer("--x", bad); }), StartsWith("--x is '")) << bad;
    EXPECT_THAT(refusal([&] { parse_integers("--x", bad); }), StartsWith("--x is '")) << bad;
  }
}

TEST(Parse, Floats) {
  EXPECT_EQ(parse_float("--x", "0.125"), 0.125f);
  EXPECT_EQ(parse_float("--x", "1e-3"), 1e-3f);
  EXPECT_EQ(parse_float("--x", "0"), 0);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e39", "1,5", "x"})
    EXPECT_THAT(refusal([&] { parse_float("--x", bad); }), HasSubstr("finite number")) << bad;
  EXPECT_EQ(parse_softcap("30"), 30);
  for (const char* bad : {"0", "-1"})
    EXPECT_THAT(refusal([&] { parse_softcap(bad); }), HasSubstr("> 0")) << bad;
}

TEST(Parse, Window) {
  EXPECT_EQ(parse_window("5,0").left, 5);
  EXPECT_EQ(parse_window("5,0").right, 0);
  EXPECT_EQ(parse_window("-1,3").left, TESSERA_UNBOUNDED);
  for (const char* bad : {"5", "1,2,3", "-2,0", "0,-2", "all,0"})
    EXPECT_THAT(refusal([&] { parse_window(bad); }), StartsWith("--window is '")) << bad;
}

TEST(Parse, Alignment) {
  EXPECT_EQ(parse_alignment("top-left").kind, TESSERA_ALIGN_TOP_LEFT);
  EXPECT_EQ(parse_alignment("bottom-right").kind, TESSERA_ALIGN_BOTTOM_RIGHT);
  EXPECT_EQ(parse_alignment("-3").kind, TESSERA_ALIGN_OFFSET);
  EXPECT_EQ(parse_alignment("-3").offset, -3);
  EXPECT_THAT(refusal([] { parse_alignment("left"); }), HasSubstr("top-left, bottom-right"));
}

TEST(Parse, WordsOfTypesAndBackends) {
  for (const char* word : {"f32", "f16", "bf16"}) EXPECT_EQ(dtype_word(parse_dtype(word)), word);
  for (const char* word : {"auto", "cpu", "reference", "standard"})
    EXPECT_EQ(backend_word(parse_backend(word)), word);
  EXPECT_THAT(refusal([] { parse_dtype("f64"); }), HasSubstr("f32, f16 or bf16"));
  EXPECT_THAT(refusal([] { parse_backend("gpu"); }), HasSubstr("auto, cpu"));
}

TEST(Parse, ThreadsAndSeed) {
  EXPECT_EQ(parse_threads("3"), 3);
  for (const char* bad : {"0", "-1", "2147483648", "two"})
    EXPECT_THAT(refusal([&] { parse_threads(bad); }), StartsWith("--threads is")) << bad;
  EXPECT_EQ(parse_seed("18446744073709551615"), UINT64_MAX);
  EXPECT_THAT(refusal([] { parse_seed("-1"); }), StartsWith("--seed is"));
  EXPECT_EQ(parse_splits("10000"), 10000);
  for (const char* bad : {"0", "-1", "10001"})
    EXPECT_THAT(refusal([&] { parse_splits(bad); }), HasSubstr("from 1 to 10000")) << bad;
  EXPECT_EQ(parse_dropout_offset("4294967295"), UINT32_MAX);
  for (const char* bad : {"4294967296", "-1", "", "x"})
    EXPECT_THAT(refusal([&] { parse_dropout_offset(bad); }), HasSubstr("32 bits")) << bad;
}

TEST(Parse, ShapeComesBackAsItsText) {
  EXPECT_EQ(to_text(parse_shape("1,2,3,4,2,5,6")), "1,2,3,4,2,5,6");
  EXPECT_THAT(refusal([] { parse_shape("1,2,3"); }), HasSubstr("3 numbers; give seven"));
  EXPECT_THAT(refusal([] { parse_shape("1,2,3,4,2,5,-6"); }), HasSubstr("-6 is not"));
}

TEST(Band, CausalAndWindowAreOneBand) {
  AttentionOptions options;
  EXPECT_EQ(options.band().right, TESSERA_UNBOUNDED);
  options.causal = true;
  EXPECT_EQ(options.band().left, TESSERA_UNBOUNDED);
  EXPECT_EQ(options.band().right, 0);
  options.window = Window{4, TESSERA_UNBOUNDED};
  EXPECT_EQ(options.band().left, 4);
  EXPECT_EQ(options.band().right, 0);
  options.window = Window{4, 2};
  EXPECT_THAT(refusal([&] { options.band(); }), HasSubstr("asks for 2 of them"));
}

}  // namespace
}  // namespace tessera::tool
