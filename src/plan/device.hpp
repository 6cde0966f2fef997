// What a device can do, as a value: tests invent devices.
#pragma once
#include <cstdint>
#include <string_view>

namespace tessera::plan {

struct Device {
  std::string_view target = "scalar";  // the name of the instruction set
  std::int64_t lanes = 1;              // float32 in one vector
  std::int64_t threads = 1;

  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace tessera::plan
