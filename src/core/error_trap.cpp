// In place of error.cpp where there are no exceptions.
#include "core/error.hpp"

namespace tessera::core {

void fail(Status, std::string_view) { __builtin_trap(); }

}  // namespace tessera::core
