// Structs of older and newer callers.
#include "api/versioned.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tessera::test {
namespace {

// A struct of which version 1 had `first` alone, and ours is version 2.
struct Ours {
  std::uint32_t size;
  std::int32_t first;
  std::int32_t second;
  std::int32_t third;
};
Ours defaults() { return {sizeof(Ours), -1, -2, -3}; }

constexpr api::Versioned<Ours> kAbout{"thing", "our_thing", 8, defaults};

// What a caller passes whose struct is longer than ours.
struct Newer {
  Ours ours;
  std::int32_t fourth, fifth;
};

core::Status status_of(const Ours* theirs) {
  Ours ours;
  try {
    api::read_versioned(kAbout, theirs, ours);
  } catch (const core::Error& e) {
    return e.status();
  }
  return core::Status::kOk;
}

TEST(Versioned, OurOwnSizeIsReadInPlace) {
  const Ours theirs{sizeof(Ours), 1, 2, 3};
  Ours ours;
  EXPECT_EQ(&api::read_versioned(kAbout, &theirs, ours), &theirs);
}

TEST(Versioned, AnOlderCallerGetsDefaultsForWhatItLacks) {
  const Ours theirs{8, 1, 777, 777};  // the last two lie behind the caller's struct
  Ours ours;
  const Ours& read = api::read_versioned(kAbout, &theirs, ours);
  EXPECT_EQ(read.size, sizeof(Ours));
  EXPECT_EQ(read.first, 1);
  EXPECT_EQ(read.second, -2);
  EXPECT_EQ(read.third, -3);
}

TEST(Versioned, ANewerCallerMayLeaveItsFieldsAt0) {
  const Newer theirs{{sizeof(Newer), 1, 2, 3}, 0, 0};
  Ours ours;
  const Ours& read = api::read_versioned(kAbout, &theirs.ours, ours);
  EXPECT_EQ(read.size, sizeof(Ours));
  EXPECT_EQ(read.third, 3);
}

TEST(Versioned, ANewerCallerMayNotUseThem) {
  const Newer theirs{{sizeof(Newer), 1, 2, 3}, 0, 1};
  EXPECT_EQ(status_of(&theirs.ours), core::Status::kUnsupported);
}

TEST(Versioned, SizesBeyondReasonAreRefused) {
  for (const std::uint32_t size : {0u, 7u, 65537u, 0xFFFFFFFFu}) {
    const Ours theirs{size, 1, 2, 3};
    EXPECT_EQ(status_of(&theirs), core::Status::kInvalidArgument) << size;
  }
  EXPECT_EQ(status_of(nullptr), core::Status::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::test
