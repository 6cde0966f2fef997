#include "support/law.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::test {

namespace {

// Each test has numbers of its own, the same in every order of tests.
std::uint64_t seed_of_this_test() {
  std::uint64_t hash = test_seed();
  for (const char c : this_test()) hash = (hash ^ std::uint64_t(c)) * 0x100000001b3u;  // FNV-1a
  return hash;
}

}  // namespace

std::string this_test() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("TESSERA_TEST_SEED={} --gtest_filter={}.{}", test_seed(),
                     info->test_suite_name(), info->name());
}

std::string parameter_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

OnEveryBackend::OnEveryBackend() : dice_(seed_of_this_test()) {}

std::vector<Backend> OnEveryBackend::every_thread_count() {
  std::vector<Backend> all;
  for (const int threads : kThreadCounts) {
    all.push_back(on(threads));
    if (!all.back().is_cpu()) break;
  }
  return all;
}

void OnEveryBackend::for_cases(int count, const Make& make, const Body& law) {
  for (int n = 0; n < count; ++n)
    for (const DType dtype : kFloats) {
      Case c = make(dice_);
      c.dtype = dtype;
      for (const Backend& backend : every_thread_count()) {
        if (!backend.does(c)) continue;
        SCOPED_TRACE(backend.command(c) + "\n  " + this_test());
        law(backend, c);
        if (HasFailure()) return;
      }
    }
}

void OnEveryBackend::for_case(const Case& c, const Body& law) {
  for_cases(1, [&c](Dice&) { return c; }, law);
}

}  // namespace tessera::test
