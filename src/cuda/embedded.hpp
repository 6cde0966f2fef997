// What the build put into the library: kernels compiled ahead, and the text of all others.
// cmake/instances.cmake writes the definitions.
#pragma once
#include <span>
#include <string_view>

namespace tessera::cuda {

// A kernel for one architecture: a cubin, or PTX that the driver compiles.
struct Image {
  std::string_view kernel;  // the name of its entry
  int arch = 0;             // 90 is sm_90, or compute_90 of PTX
  bool ptx = false;
  std::string_view bytes{};  // with a 0 behind them
};
std::span<const Image> images();

// A header of src/device as kernels include it: "device/types.cuh", "isa/mma.cuh". The text ends
// in a 0.
struct Header {
  std::string_view name, text;
};
std::span<const Header> headers();

// src/device/entry.cu.in, the text of an entry with places for its numbers.
std::string_view entry_template();

}  // namespace tessera::cuda
