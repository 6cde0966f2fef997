#include "tools/tessera/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using core::DType;
using testing::ElementsAre;
using testing::HasSubstr;

Contents contents(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {"x.npy", std::make_shared<std::vector<std::byte>>(bytes, bytes + text.size())};
}

std::string little(std::uint64_t n, int width) {
  std::string text;
  for (int i = 0; i < width; ++i) text.push_back(char(n >> 8 * i & 0xff));
  return text;
}

std::string file(const std::string& header, const std::string& data, char major = 1) {
  const std::string length = little(header.size(), major == 1 ? 2 : 4);
  return std::string("\x93NUMPY") + major + '\0' + length + header + data;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

template <class T> std::string bytes(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string refusal(const std::string& text) {
  try {
    read_npy(contents(text));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kBadInput);
    return failure.what();
  }
  return "accepted";
}

TEST(Npy, ReadsEveryFloatingType) {
  const auto f4 =
      read_npy(contents(file(header("<f4", "(2, 3)"), bytes<float>({1, 2, 3, 4, 5, 6}))));
  EXPECT_EQ(f4.tensor.dtype, DType::kFloat32);
  EXPECT_THAT(f4.shape(), ElementsAre(2, 3));
  EXPECT_EQ(f4.tensor.load(1, 0), 4);
  const auto f8 = read_npy(contents(file(header("<f8", "(1,)"), bytes({0.1}))));
  EXPECT_EQ(f8.tensor.load(0), 0.1);
  const auto f2 = read_npy(contents(file(header("<f2", "(1,)"), bytes({std::uint16_t{0x3c00}}))));
  EXPECT_EQ(f2.tensor.load(0), 1);
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  for (const char major : {char(2), char(3)}) {
    const auto a = read_npy(contents(file(header("<f4", "(1,)"), bytes({7.f}), major)));
    EXPECT_EQ(a.tensor.load(0), 7);
  }
  EXPECT_THAT(refusal(file(header("<f4", "(1,)"), bytes({7.f}), 4)), HasSubstr("version 4"));
}

TEST(Npy, HonoursFortranOrder) {
  const auto a =
      read_npy(contents(file(header("<f4", "(2, 3)", "True"), bytes<float>({1, 4, 2, 5, 3, 6}))));
  EXPECT_EQ(a.tensor.load(0, 2), 3);
  EXPECT_EQ(a.tensor.load(1, 0), 4);
}

TEST(Npy, ReadsDataThatIsNotAligned) {
  const std::string odd = header("<f4", "(2,)") + " ";
  for (const std::string& h : {odd, odd + " ", odd + "  "}) {
    const auto a = read_npy(contents(file(h, bytes<float>({1, 2}))));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.tensor.data) % 4, 0);
    EXPECT_EQ(a.tensor.load(1), 2);
  }
}

TEST(Npy, WidensIntegers) {
  const auto i2 = read_npy(contents(file(header("<i2", "(2,)"), bytes<std::int16_t>({-3, 300}))));
  EXPECT_EQ(i2.tensor.dtype, DType::kInt64);
  EXPECT_EQ(i2.tensor.load_int(0), -3);
  EXPECT_EQ(i2.tensor.load_int(1), 300);
  const auto u4 = read_npy(contents(file(header("<u4", "(1,)"), bytes({0xffffffffu}))));
  EXPECT_EQ(u4.tensor.load_int(0), 0xffffffff);
  const auto i4 = read_npy(contents(file(header("<i4", "(1,)"), bytes({5}))));
  EXPECT_EQ(i4.tensor.dtype, DType::kInt32);
  EXPECT_THAT(refusal(file(header("<u8", "(1,)"), bytes({~0ull}))), HasSubstr("past 2^63"));
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  EXPECT_EQ(read_npy(contents(file(header("<f4", "()"), bytes({2.f})))).rank, 0);
  const auto empty = read_npy(contents(file(header("<f4", "(0, 4)"), "")));
  EXPECT_TRUE(empty.present());
  EXPECT_EQ(count(empty.tensor), 0);
  const auto long_and_empty =
      read_npy(contents(file(header("<f4", "(1152921504606846975, 0)"), "")));
  EXPECT_EQ(converted(long_and_empty, DType::kFloat64).tensor.shape[1], 0) << "in no time";
}

TEST(Npy, AcceptsAnyOrderOfKeysAndEitherQuote) {
  const auto a = read_npy(
      contents(file("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"=f4\"}", bytes({9.f}))));
  EXPECT_EQ(a.tensor.load(0), 9);
}

TEST(Npy, RefusesFilesThatEndTooSoonOrTooLate) {
  const std::string whole = file(header("<f4", "(2, 3)"), bytes<float>({1, 2, 3, 4, 5, 6}));
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(refusal(whole.substr(0, n)), "accepted") << n;
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)),
              HasSubstr("cut off: an array of shape [2, 3] takes 24 bytes, and 23 are there"));
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("too long"));
}

TEST(Npy, RefusesSizesThatOverflow) {
  EXPECT_THAT(refusal(file(header("<f8", "(1152921504606846976, 2)"), "")),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(refusal(file(header("<f4", "(0, 4611686018427387904, 4)"), "")),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(refusal(file(header("<f4", "(99999999999999999999,)"), "")), HasSubstr("header"));
}

TEST(Npy, RefusesWhatItCannotCompute) {
  EXPECT_THAT(refusal(file(header(">f4", "(1,)"), bytes({1.f}))),
              HasSubstr("big-endian ('>f4'); write it again as little-endian, in NumPy with "
                        "x.astype('<f4')"));
  EXPECT_THAT(refusal(file(header("<V2", "(1,)"), "ab")), HasSubstr("use .safetensors"));
  EXPECT_THAT(refusal(file(header("<c8", "(1,)"), "")), HasSubstr("type '<c8'"));
  EXPECT_THAT(refusal(file(header("|O", "(1,)"), "")), HasSubstr("type '|O'"));
  EXPECT_THAT(refusal(file(header("<f4", "(1, 1, 1, 1, 1)"), bytes({1.f}))),
              HasSubstr("5 dimensions; at most 4"));
  EXPECT_THAT(refusal(file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "")),
              HasSubstr("records with fields"));
}

TEST(Npy, RefusesHeadersThatAreNotTheDictionary) {
  for (const char* bad :
       {"", "{", "[]", "{'descr': '<f4'", "{'descr': <f4}", "{'descr': '<f4', 'descr': '<f4'}",
        "{'other': 1}", "{'fortran_order': maybe}", "{'shape': (1 2)}", "{'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1", "{'shape': (1,}"})
    EXPECT_THAT(refusal(file(bad, bytes({1.f}))), HasSubstr("not the dictionary")) << bad;
  EXPECT_THAT(refusal(file("{'descr': '<f4', 'shape': (1,)}", bytes({1.f}))),
              HasSubstr("no 'fortran_order'"));
  EXPECT_THAT(refusal("PK\x03\x04 something else"), HasSubstr("does not begin like"));
}

TEST(Npy, ShowsNoControlCharactersOfTheFile) {
  EXPECT_THAT(refusal(file(header("\033[2J", "(1,)"), "")), testing::Not(HasSubstr("\033")));
}

TEST(Npy, WritesWhatItReads) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{}, {3}, {2, 3}, {2, 1, 3, 2}, {0, 2}}) {
    Array a = make_array(DType::kFloat32, shape);
    double next = 1;
    for_each_index(a.tensor.shape, [&](const core::Index4& i) { a.tensor.store(i, next++); });
    const std::string text = npy_bytes(a);
    EXPECT_EQ((text.size() - std::size_t(count(a.tensor)) * 4) % 64, 0);
    const Array b = read_npy(contents(text));
    EXPECT_THAT(b.shape(), testing::ElementsAreArray(shape));
    for_each_index(a.tensor.shape,
                   [&](const core::Index4& i) { EXPECT_EQ(load(a.tensor, i), load(b.tensor, i)); });
  }
}

TEST(Npy, HeaderIsTheOneThatNumPyWrites) {
  const std::string text = npy_bytes(make_array(DType::kFloat16, std::vector<std::int64_t>{3}));
  EXPECT_THAT(text, HasSubstr("{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }"));
  EXPECT_EQ(npy_cannot_hold(DType::kFloat16), "");
  EXPECT_EQ(npy_cannot_hold(DType::kBfloat16), ".npy has no bfloat16: use .safetensors");
}

}  // namespace
}  // namespace tessera::tool
