// What a device can do, as a value: tests invent devices.
#pragma once
#include <cstdint>
#include <string_view>

namespace tessera::plan {

// How the products of a forward are formed. Sums are float32 in all of them.
enum class Arithmetic {
  kFloat32,  // of elements that were widened
  kPairs,    // of two bfloat16 at once (AVX512-BF16)
  kTiles,    // of tiles of 16 x 32 bfloat16 (AMX-BF16)
};

struct Device {
  std::string_view target = "scalar";  // the name of the instruction set
  std::int64_t lanes = 1;              // float32 in one vector
  std::int64_t threads = 1;
  Arithmetic bfloat16 = Arithmetic::kFloat32;  // the best that it has for bfloat16

  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace tessera::plan
