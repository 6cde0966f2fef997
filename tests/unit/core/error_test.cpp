#include "core/error.hpp"

#include <gtest/gtest.h>

namespace tessera::core {
namespace {

TEST(Error, CarriesStatusAndSentence) {
  try {
    fail(Status::kUnsupported, "the sentence");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kUnsupported);
    EXPECT_STREQ(error.what(), "the sentence");
    return;
  }
  FAIL() << "fail() returned";
}

}  // namespace
}  // namespace tessera::core
