// Exceptions at the border, and the struct that tells of them.
#include "api/guard.hpp"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

namespace tessera::test {
namespace {

tessera_error filled() {
  tessera_error error = tessera_error_default();
  error.status = 99;
  std::memset(error.message, 'x', sizeof error.message);
  return error;
}

TEST(Guard, SuccessClearsTheError) {
  tessera_error error = filled();
  EXPECT_EQ(api::guard(&error, [] {}), TESSERA_OK);
  EXPECT_EQ(error.status, TESSERA_OK);
  EXPECT_STREQ(error.message, "");
}

TEST(Guard, EachExceptionHasItsStatus) {
  tessera_error error = filled();
  EXPECT_EQ(api::guard(&error, [] { core::fail(core::Status::kUnsupported, "so"); }),
            TESSERA_UNSUPPORTED);
  EXPECT_EQ(error.status, TESSERA_UNSUPPORTED);
  EXPECT_STREQ(error.message, "so");
  EXPECT_EQ(api::guard(&error, [] { throw std::bad_alloc(); }), TESSERA_OUT_OF_MEMORY);
  EXPECT_EQ(api::guard(&error, [] { throw std::logic_error("why"); }), TESSERA_INTERNAL);
  EXPECT_NE(std::string(error.message).find("why"), std::string::npos);
  EXPECT_EQ(api::guard(&error, [] { throw 7; }), TESSERA_INTERNAL);
}

TEST(Guard, NoErrorIsFine) {
  EXPECT_EQ(api::guard(nullptr, [] { throw std::bad_alloc(); }), TESSERA_OUT_OF_MEMORY);
}

TEST(Guard, ALongSentenceIsCutOffAndEnded) {
  tessera_error error = filled();
  api::report(&error, core::Status::kInternal, std::string(2000, 'y'));
  EXPECT_EQ(std::string(error.message), std::string(sizeof error.message - 1, 'y'));
}

// The size that the caller sets is the room there is, whatever ours is.
TEST(Guard, NothingIsWrittenPastTheSizeOfTheError) {
  for (const std::uint32_t size : {0u, 4u, 7u, 8u, 9u, 12u, 511u}) {
    tessera_error error = filled();
    error.size = size;
    api::report(&error, core::Status::kInternal, std::string(2000, 'y'));
    EXPECT_EQ(error.status, size >= 8 ? TESSERA_INTERNAL : 99) << size;
    const std::size_t room = size > 8 ? size - 8 : 0;
    for (std::size_t i = 0; i < sizeof error.message; ++i)
      ASSERT_EQ(error.message[i], i + 1 < room ? 'y' : i + 1 == room ? 0 : 'x') << size << ' ' << i;
  }
}

TEST(Guard, ALargerErrorOfANewerCallerIsFilledAsFarAsWeKnowIt) {
  struct {
    tessera_error error;
    std::array<char, 16> rest;
  } newer{filled(), {}};
  newer.error.size = sizeof newer;
  newer.rest.fill('z');
  api::report(&newer.error, core::Status::kInternal, std::string(2000, 'y'));
  EXPECT_EQ(newer.error.message[sizeof newer.error.message - 1], 0);
  for (const char c : newer.rest) EXPECT_EQ(c, 'z');
}

}  // namespace
}  // namespace tessera::test
