// Texts of single options as values, or a refusal that names the option.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tessera/options.hpp"

namespace tessera::tool {

std::int64_t parse_integer(std::string_view option, std::string_view text);
float parse_float(std::string_view option, std::string_view text);
float parse_softcap(const std::string& text);  // > 0
// Integers separated by commas.
std::vector<std::int64_t> parse_integers(std::string_view option, std::string_view text);

Window parse_window(const std::string& text);        // L,R with -1 for all keys
Alignment parse_alignment(const std::string& text);  // top-left, bottom-right or an offset
core::DType parse_dtype(const std::string& text);    // f32, f16 or bf16
std::uint32_t parse_backend(const std::string& text);
int parse_threads(const std::string& text);  // >= 1
std::uint64_t parse_unsigned(std::string_view option, const std::string& text);
std::uint64_t parse_seed(const std::string& text);
std::uint32_t parse_dropout_offset(const std::string& text);
std::int64_t parse_splits(const std::string& text);     // 1 to 10000
std::int64_t parse_page_size(const std::string& text);  // >= 1
Shape parse_shape(const std::string& text);             // B,Lq,Lk,H,Hk,D,Dv

}  // namespace tessera::tool
