// What every function that takes a context asks first.
#pragma once
#include "api/require.hpp"
#include "tessera/tessera.h"

namespace tessera::api {

inline void require_context(const tessera_context* context) {
  require(context != nullptr, Sentence::kNullContext);
}

}  // namespace tessera::api
