// Where there is no emulator, nobody carries out what is launched.
#include "fake/fake_driver.hpp"

namespace tessera::fake {

bool (*compute_of_environment())(Cuda&, const Launch&) { return nullptr; }

}  // namespace tessera::fake
