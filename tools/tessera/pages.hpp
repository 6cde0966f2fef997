// Keys and values in pages of a table.
#pragma once
#include <cstdint>

#include "tools/tessera/inputs.hpp"

namespace tessera::tool {

// Moves k and v, [B, Lk, Hk, D], into pages of `page_size` keys, in an order that depends on the
// seed, and makes the table. Slots past Lk hold 0. Lengths that are absent become Lk.
void put_into_pages(Inputs& in, std::int64_t page_size, std::uint64_t seed, Fill fill);

}  // namespace tessera::tool
