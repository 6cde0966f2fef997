// The driver that is none, and what it has been asked.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "cuda/driver.hpp"
#include "fake/fake_driver.hpp"

namespace tessera::test {

// Opens it as the library would. A test that changes it gets it as it was at first.
inline fake::Cuda& fake_cuda() {
  static void* const library = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  static const auto access = reinterpret_cast<fake::Access>(dlsym(library, "fake_cuda"));
  return *access();
}

// NVRTC is a Python package of the environment that scripts/setup.sh makes.
inline const int environment_of_tests = setenv("VIRTUAL_ENV", TEST_ENVIRONMENT, 0);

class WithFakeDriver : public testing::Test {
 protected:
  WithFakeDriver() { fake_cuda().reset(); }
  static cuda::Driver open() { return cuda::Driver::open(FAKE_DRIVER); }
};

}  // namespace tessera::test
