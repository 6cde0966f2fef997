// Small kernels, each right or with one bug planted, under several schedules.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "emulator/grid.hpp"

namespace tessera::test {

// What the emulator says of a kernel; nothing if it has no complaint.
inline std::string complaint(const emulator::Launch& launch, emulator::GlobalMemory memory,
                             const std::function<void()>& kernel) {
  try {
    emulator::launch(launch, memory, kernel);
  } catch (const emulator::Violation& v) {
    return v.what();
  }
  return "";
}

inline constexpr emulator::u64 kSchedules[] = {1, 2, 3, 4, 5};

// A kernel is clean as it is, and with its bug each schedule gives a report that matches.
struct Probe {
  emulator::Launch launch;
  std::function<emulator::GlobalMemory()> memory = [] { return emulator::GlobalMemory(); };
  std::function<void(bool planted)> kernel;

  void expect(const std::string& report) const {
    for (const emulator::u64 seed : kSchedules) {
      emulator::Launch with = launch;
      with.seed = seed;
      EXPECT_EQ(complaint(with, memory(), [this] { kernel(false); }), "") << "schedule " << seed;
      EXPECT_THAT(complaint(with, memory(), [this] { kernel(true); }),
                  testing::ContainsRegex(report))
          << "schedule " << seed;
    }
  }
};

}  // namespace tessera::test
