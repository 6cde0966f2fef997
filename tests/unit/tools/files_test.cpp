#include "tools/tessera/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

namespace fs = std::filesystem;
using core::DType;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A folder of its own for each test.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("tessera_files_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : fs::directory_iterator(folder_))
      list.push_back(entry.path().filename().string());
    return list;
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  fs::path folder_;
};

Array numbers(DType dtype, double first) {
  Array a = make_array(dtype, std::vector<std::int64_t>{2});
  a.tensor.store({0, 0, 0, 0}, first);
  return a;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kBadInput);
    return failure.what();
  }
  return "accepted";
}

TEST_F(Files, WrittenArraysAreReadBack) {
  const Array out = numbers(DType::kFloat32, 3), lse = numbers(DType::kFloat32, -1);
  write_arrays({{path("out.npy"), "out", out}, {path("lse.npy"), "lse", lse}});
  EXPECT_EQ(read_array(path("out.npy"), "out").tensor.load(0), 3);
  EXPECT_EQ(read_array(path("lse.npy"), "lse").tensor.load(0), -1);
  EXPECT_THAT(names(), UnorderedElementsAre("out.npy", "lse.npy"));
}

TEST_F(Files, OneSafetensorsFileTakesSeveral) {
  const Array out = numbers(DType::kBfloat16, 3), lse = numbers(DType::kFloat32, -1);
  const std::string again = (folder_ / "." / "both.safetensors").string();
  write_arrays({{path("both.safetensors"), "out", out}, {again, "lse", lse}});
  const ArrayFile file(path("both.safetensors"), "out");
  EXPECT_EQ(file.get("out").tensor.load(0), 3);
  EXPECT_EQ(file.get("lse").tensor.load(0), -1);
  EXPECT_THAT(refusal([&] { file.get("q"); }), HasSubstr("no tensor 'q'; it has lse, out"));
}

TEST_F(Files, NothingIsWrittenIfOneCannotBe) {
  const Array out = numbers(DType::kFloat32, 3);
  fs::create_directory(folder_ / "folder.npy");
  put("old.npy", "as it was");
  for (const std::string bad : {"no/such/folder.npy", "folder.npy", "out.txt"})
    EXPECT_NE(
        refusal([&] { write_arrays({{path("old.npy"), "out", out}, {path(bad), "lse", out}}); }),
        "accepted");
  EXPECT_THAT(names(), UnorderedElementsAre("folder.npy", "old.npy"));
  EXPECT_EQ(fs::file_size(path("old.npy")), 9);
}

TEST_F(Files, SaysWhyAPathIsNoPlaceToWrite) {
  const Array wide = numbers(DType::kFloat32, 3), narrow = numbers(DType::kBfloat16, 3);
  const auto check = [&](std::vector<Destination> d) {
    return refusal([&] { check_destinations(d); });
  };
  EXPECT_EQ(check({{path("a.npy"), "out", wide}}), "accepted");
  EXPECT_THAT(check({{path("a.npy"), "out", narrow}}), HasSubstr("use .safetensors"));
  EXPECT_THAT(check({{path("a.npz"), "out", wide}}), HasSubstr("ends neither in .npy nor"));
  EXPECT_THAT(check({{path("a.npy"), "out", wide}, {path("./a.npy"), "lse", wide}}),
              HasSubstr("a .npy file holds one array"));
}

TEST_F(Files, WritesThroughALink) {
  put("real.npy", "old");
  fs::create_symlink(folder_ / "real.npy", folder_ / "link.npy");
  write_arrays({{path("link.npy"), "out", numbers(DType::kFloat32, 8)}});
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  EXPECT_EQ(read_array(path("real.npy"), "out").tensor.load(0), 8);
}

TEST_F(Files, SaysWhyAPathCannotBeRead) {
  put("text.txt", "hello");
  EXPECT_THAT(refusal([&] { read_array(path("none.npy"), "q"); }), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal([&] { read_array(folder_.string(), "q"); }), HasSubstr("neither a file nor"));
  EXPECT_THAT(refusal([&] { read_array("/dev/zero", "q"); }), HasSubstr("neither a file nor"));
  EXPECT_THAT(refusal([&] { read_array(path("text.txt"), "q"); }), HasSubstr("convert or rename"));
}

}  // namespace
}  // namespace tessera::tool
