// Texts of single options of explain as values, or a failure that names the option.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/band.hpp"
#include "core/dtype.hpp"
#include "core/traffic.hpp"

namespace tessera::core::words {

std::int64_t positive(std::string_view flag, std::string_view text);
std::int64_t integer(std::string_view flag, std::string_view text);
std::uint64_t seed(std::string_view text);
float number(std::string_view flag, std::string_view text);
std::vector<float> numbers(std::string_view flag, std::string_view text);  // "0,1.5,-2"
double rate(std::string_view flag, std::string_view text);                 // > 0
std::vector<std::int64_t> lengths(std::string_view text);
DType dtype(std::string_view text);    // f32, f16 or bf16
TileSize tile(std::string_view text);  // rows of q and rows of k and v
Pass pass(std::string_view text);      // forward or backward
Range hidden(std::string_view text);   // a key, or the first and the last
Band window(std::string_view text);    // L,R with -1 for all keys

}  // namespace tessera::core::words
