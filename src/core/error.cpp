#include "core/error.hpp"

namespace tessera::core {

void fail(Status status, std::string_view sentence) { throw Error(status, std::string(sentence)); }

}  // namespace tessera::core
