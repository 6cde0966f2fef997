#include "cuda/cache.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "unit/cuda/folder.hpp"

namespace tessera::test {
namespace {

using cuda::Cache;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CacheTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string place_ = folder_.path() + "/a/b";
  std::string key_ = cuda::cache_key("text", "options");

  fs::path file() const { return fs::path(place_) / (key_ + ".cubin"); }
};

TEST_F(CacheTest, gives_back_what_was_stored) {
  const Cache cache(place_);
  ASSERT_EQ(cache.why_not(), "");
  EXPECT_EQ(cache.load(key_), std::nullopt);
  const std::string bytes("a\0b", 3);
  EXPECT_TRUE(cache.store(key_, bytes));
  EXPECT_EQ(cache.load(key_), bytes);
  EXPECT_EQ(Cache(place_).load(key_), bytes);
  EXPECT_EQ(cache.entries().size(), 1u);
}

TEST_F(CacheTest, keys_tell_text_and_options_apart) {
  const std::string other[] = {cuda::cache_key("texto", "ptions"), cuda::cache_key("text", ""),
                               cuda::cache_key("", "options")};
  EXPECT_EQ(key_.size(), 32u);
  for (const std::string& key : other) EXPECT_NE(key, key_);
  EXPECT_EQ(key_, cuda::cache_key("text", "options"));
}

TEST_F(CacheTest, the_folder_and_its_files_are_the_owners_alone) {
  const Cache cache(place_);
  cache.store(key_, "x");
  struct stat about{};
  stat(place_.c_str(), &about);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
  stat(file().c_str(), &about);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(CacheTest, a_folder_that_others_may_write_to_is_refused) {
  fs::create_directories(place_);
  for (const unsigned mode : {0777u, 0770u, 0702u}) {
    chmod(place_.c_str(), mode);
    const Cache cache(place_);
    EXPECT_THAT(cache.why_not(), HasSubstr("may be written to by others"));
    EXPECT_FALSE(cache.store(key_, "x"));
    EXPECT_EQ(cache.load(key_), std::nullopt);
    EXPECT_TRUE(fs::is_empty(place_));
  }
}

TEST_F(CacheTest, a_folder_of_somebody_else_is_refused) {
  if (geteuid() == 0) {
    fs::create_directories(place_);
    ASSERT_EQ(chown(place_.c_str(), 12345, 12345), 0);
    EXPECT_THAT(Cache(place_).why_not(), HasSubstr("belongs to another user"));
  } else {
    EXPECT_THAT(Cache("/usr").why_not(), HasSubstr("belongs to another user"));
  }
}

TEST_F(CacheTest, a_folder_that_cannot_be_is_a_sentence) {
  std::ofstream(folder_.path() + "/file") << "x";
  EXPECT_THAT(Cache(folder_.path() + "/file/below").why_not(), HasSubstr("does not open"));
  EXPECT_THAT(Cache("").why_not(), HasSubstr("HOME is not set"));
}

TEST_F(CacheTest, a_damaged_file_is_a_miss_and_goes) {
  const Cache cache(place_);
  const std::string bytes(1000, 'x');
  const auto change = [&](std::int64_t at) {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at).put('?');
  };
  const std::function<void()> damages[] = {[&] { fs::resize_file(file(), 500); },
                                           [&] { fs::resize_file(file(), 0); },
                                           [&] { fs::resize_file(file(), 2000); },
                                           [&] { change(0); },
                                           [&] { change(9); },
                                           [&] { change(20); },
                                           [&] { change(700); }};
  for (const auto& damage : damages) {
    ASSERT_TRUE(cache.store(key_, bytes));
    damage();
    EXPECT_EQ(cache.load(key_), std::nullopt);
    EXPECT_FALSE(fs::exists(file()));
  }
}

TEST_F(CacheTest, a_link_is_not_followed) {
  const Cache cache(place_);
  cache.store(key_, "x");
  fs::rename(file(), folder_.path() + "/elsewhere");
  fs::create_symlink(folder_.path() + "/elsewhere", file());
  EXPECT_EQ(cache.load(key_), std::nullopt);
}

TEST_F(CacheTest, what_was_used_longest_ago_makes_room) {
  const Cache cache(place_, 3000);
  for (const char* key : {"1", "2", "3"}) {
    cache.store(key, std::string(900, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(cache.entries().size(), 3u);
  EXPECT_TRUE(cache.load("1"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cache.store("4", std::string(900, 'x'));
  EXPECT_TRUE(cache.load("1"));
  EXPECT_FALSE(cache.load("2"));
  EXPECT_TRUE(cache.load("4"));
  EXPECT_FALSE(cache.store("5", std::string(4000, 'x'))) << "more than all of the room";
}

TEST_F(CacheTest, clears) {
  const Cache cache(place_);
  cache.store("1", "abc");
  cache.store("2", "defg");
  std::int64_t bytes = 0;
  for (const Cache::Entry& entry : cache.entries()) bytes += entry.bytes;
  EXPECT_EQ(cache.clear(), bytes);
  EXPECT_TRUE(cache.entries().empty());
}

// Each process stores and loads the same and other keys; no load may see a part.
TEST_F(CacheTest, many_processes_at_once) {
  const auto value = [](int key) {
    return std::string(20'000 + std::size_t(key), char('a' + key));
  };
  std::vector<pid_t> children;
  for (int n = 0; n < 6; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      const Cache cache(place_, 100'000);  // room for four, so files also go while they are read
      bool right = cache.why_not().empty();
      for (int i = 0; i < 200; ++i) {
        const int key = (i * 7 + n) % 8;
        right = right && cache.store(std::to_string(key), value(key));
        const auto got = cache.load(std::to_string((i + n) % 8));
        right = right && (!got || *got == value((i + n) % 8));
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(place_))
    EXPECT_EQ(entry.path().extension(), ".cubin") << "a part was left";
}

TEST(CacheFolder, follows_the_environment) {
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  unsetenv("TESSERA_CACHE");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/h", 1);
  EXPECT_EQ(Cache::default_folder(), "/h/.cache/tessera");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(Cache::default_folder(), "/x/tessera");
  setenv("TESSERA_CACHE", "/t", 1);
  EXPECT_EQ(Cache::default_folder(), "/t");
  unsetenv("TESSERA_CACHE");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace tessera::test
