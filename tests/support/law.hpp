// The fixture of laws and conformance: one test for each backend, which tries every dtype and
// number of threads.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/compare.hpp"
#include "support/inputs.hpp"
#include "support/random_case.hpp"
#include "support/seed.hpp"

namespace tessera::test {

inline constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

class OnEveryBackend : public testing::TestWithParam<std::string> {
 protected:
  OnEveryBackend();

  // The parameter's backend on each number of threads; the reference knows but one.
  static std::vector<Backend> every_thread_count();
  static Backend on(int threads = 1) { return backend(GetParam(), threads); }

  // Calls law(on, case) for `count` cases of make(dice) in each dtype on each number of threads,
  // until one fails. A failure names the case and how to run it again.
  using Make = std::function<Case(Dice&)>;
  using Body = std::function<void(const Backend&, const Case&)>;
  void for_cases(int count, const Make& make, const Body& law);

  // The same for one case.
  void for_case(const Case& c, const Body& law);

 private:
  Dice dice_;
};

// "cpu_avx2" of "cpu/avx2", for the names of tests.
std::string parameter_name(const testing::TestParamInfo<std::string>& info);

// How to run the current test again.
std::string this_test();

}  // namespace tessera::test
