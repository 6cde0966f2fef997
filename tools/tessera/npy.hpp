// Reads and writes .npy, versions 1.0 to 3.0. Source: NumPy, "NEP 1: A Simple File Format for NumPy
// Arrays".
#pragma once
#include <string>

#include "tools/tessera/array.hpp"
#include "tools/tessera/bytes.hpp"

namespace tessera::tool {

bool looks_like_npy(const Contents& file);

// At most four dimensions; fortran_order becomes strides. Integers of other widths than 32 and 64
// bits become int64, except one unsigned byte. Refuses everything else with a sentence.
Array read_npy(const Contents& file);

// Why .npy cannot hold elements of a type; empty if it can.
std::string npy_cannot_hold(core::DType dtype);

// The file that holds a row-major array.
std::string npy_bytes(const Array& array);

}  // namespace tessera::tool
