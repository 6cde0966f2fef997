#include "tools/tessera/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using core::DType;
using testing::ElementsAre;
using testing::HasSubstr;

Contents contents(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {"x.safetensors", std::make_shared<std::vector<std::byte>>(bytes, bytes + text.size())};
}

std::string file(const std::string& header, const std::string& data = "") {
  std::string text;
  for (int i = 0; i < 8; ++i) text.push_back(char(header.size() >> 8 * i & 0xff));
  return text + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string refusal(const std::string& text, const std::string& wanted = "") {
  try {
    const Safetensors read(contents(text));
    if (!wanted.empty()) read.get(wanted);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kBadInput);
    return failure.what();
  }
  return "accepted";
}

TEST(Safetensors, ReadsEveryTypeThatIsComputedWith) {
  const std::string header =
      "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F16", "[2]", "[4,8]") + "," +
      entry("c", "BF16", "[2,1]", "[8,12]") + "," + entry("d", "F64", "[1]", "[12,20]") + "," +
      entry("e", "BOOL", "[4]", "[20,24]") + "," + entry("f", "I32", "[]", "[24,28]") + "," +
      entry("g", "I64", "[1]", "[28,36]") + "," + entry("h", "U8", "[0]", "[36,36]") +
      ",\"__metadata__\":{\"note\":\"any text\"}}";
  const Safetensors read(contents(file(header, std::string(36, '\1'))));
  EXPECT_THAT(read.names(), ElementsAre("a", "b", "c", "d", "e", "f", "g", "h"));
  EXPECT_EQ(read.get("c").tensor.dtype, DType::kBfloat16);
  EXPECT_THAT(read.get("c").shape(), ElementsAre(2, 1));
  EXPECT_EQ(read.get("f").tensor.load_int(0), 0x01010101);
  EXPECT_EQ(read.get("d").tensor.load(0), read.get("d").tensor.load(0));
  EXPECT_EQ(read.get("h").tensor.shape[0], 0);
  EXPECT_FALSE(read.has("__metadata__"));
}

TEST(Safetensors, CopiesTensorsThatAreNotAligned) {
  const std::string header =
      "{" + entry("m", "BOOL", "[1]", "[0,1]") + "," + entry("x", "F32", "[1]", "[1,5]") + "}";
  const float one = 1;
  const std::string data = "\1" + std::string(reinterpret_cast<const char*>(&one), 4);
  const Array x = Safetensors(contents(file(header, data))).get("x");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.tensor.data) % 4, 0);
  EXPECT_EQ(x.tensor.load(0), 1);
}

TEST(Safetensors, LeavesOtherTypesAloneUntilAskedFor) {
  const std::string text = file("{" + entry("x", "F8_E4M3", "[4]", "[0,4]") + "}", "abcd");
  EXPECT_EQ(refusal(text), "accepted");
  EXPECT_THAT(refusal(text, "x"), HasSubstr("'F8_E4M3'"));
  const std::string deep = file("{" + entry("x", "U8", "[1,1,1,1,1]", "[0,1]") + "}", "a");
  EXPECT_THAT(refusal(deep, "x"), HasSubstr("5 dimensions"));
}

TEST(Safetensors, RefusesFilesThatEndTooSoonOrTooLate) {
  const std::string whole = file("{" + entry("x", "F32", "[2]", "[0,8]") + "}", "12345678");
  EXPECT_EQ(refusal(whole), "accepted");
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(refusal(whole.substr(0, n)), "accepted") << n;
  EXPECT_THAT(refusal(whole + "9"), HasSubstr("1 bytes follow the last tensor"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("its header claims"));
}

TEST(Safetensors, RefusesTensorsThatOverlapOrLeaveHoles) {
  const std::string x = entry("x", "U8", "[4]", "[0,4]");
  EXPECT_THAT(refusal(file("{" + x + "," + entry("y", "U8", "[4]", "[2,6]") + "}", "123456")),
              HasSubstr("two tensors overlap at byte 2"));
  EXPECT_THAT(refusal(file("{" + x + "," + entry("y", "U8", "[2]", "[5,7]") + "}", "1234567")),
              HasSubstr("no tensor has byte 4"));
}

TEST(Safetensors, RefusesSizesThatDoNotFitTheirBytes) {
  EXPECT_THAT(refusal(file("{" + entry("x", "F32", "[3]", "[0,8]") + "}", "12345678")),
              HasSubstr("as many bytes of data as F32 of shape [3] takes"));
  EXPECT_THAT(refusal(file("{" + entry("x", "F32", "[4611686018427387904,4]", "[0,0]") + "}")),
              HasSubstr("as many bytes"));
  EXPECT_THAT(refusal(file("{" + entry("x", "U8", "[0,9223372036854775807,9]", "[0,0]") + "}")),
              HasSubstr("as many bytes"));
  EXPECT_THAT(refusal(file("{" + entry("x", "U8", "[2]", "[2,0]") + "}", "12")),
              HasSubstr("inside the 2 bytes"));
}

TEST(Safetensors, RefusesHeadersOfTheWrongKind) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "does not begin with '{'"},
      {" {}", "does not begin with '{'"},
      {"{", "not JSON"},
      {"{\"x\":1}", "must have dtype, shape and data_offsets"},
      {"{\"x\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,1]}}", "a dtype that is a text"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", "a shape that is a list"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "a shape of integers"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", "a shape of integers"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1e30],\"data_offsets\":[0,1]}}", "a shape of integers"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615],\"data_offsets\":[0,1]}}",
       "a shape of integers"},
      {"{\"x\":1e9999}", "a number that no type can hold"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", "two data_offsets"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", "must have"},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[[[[[1]]]]],\"data_offsets\":[0,1]}}", "too deeply"},
      {"{\"\xff\":1}", "not JSON"},
  };
  for (const auto& [header, sentence] : cases)
    EXPECT_THAT(refusal(file(header, "1")), HasSubstr(sentence)) << header;
}

TEST(Safetensors, RefusesNamesAndKeysThatComeTwice) {
  const std::string x = entry("x", "U8", "[1]", "[0,1]");
  EXPECT_THAT(refusal(file("{" + x + "," + x + "}", "1")), HasSubstr("'x' twice"));
  EXPECT_THAT(refusal(file("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1]}}", "1")),
              HasSubstr("'dtype' twice"));
  const std::string y = entry("y", "U8", "[1]", "[1,2]");
  EXPECT_EQ(refusal(file("{" + x + "," + y + "}", "12")), "accepted");  // equal keys, two objects
}

TEST(Safetensors, SurvivesDeepNesting) {
  EXPECT_THAT(refusal(file("{\"x\":" + std::string(1'000'000, '['))), HasSubstr("too deeply"));
}

TEST(Safetensors, WritesWhatItReads) {
  Array out = make_array(DType::kBfloat16, std::vector<std::int64_t>{2, 3});
  Array lse = make_array(DType::kFloat32, std::vector<std::int64_t>{5});
  for_each_index(out.tensor.shape,
                 [&](const core::Index4& i) { out.tensor.store(i, double(i[0] * 3 + i[1])); });
  lse.tensor.store({4, 0, 0, 0}, -3);
  const std::string text = safetensors_bytes({{"out", out}, {"lse", lse}});
  const Safetensors read(contents(text));
  EXPECT_EQ(little_endian(reinterpret_cast<const std::byte*>(text.data()), 8) % 8, 0);
  EXPECT_EQ(read.get("out").tensor.dtype, DType::kBfloat16);
  EXPECT_EQ(read.get("out").tensor.load(1, 2), 5);
  EXPECT_EQ(read.get("lse").tensor.load(4), -3);
}

}  // namespace
}  // namespace tessera::tool
