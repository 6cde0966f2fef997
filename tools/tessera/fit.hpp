// Arrays as a call wants them, or a refusal that names the array and what is accepted.
#pragma once
#include <string>
#include <string_view>

#include "tools/tessera/array.hpp"

namespace tessera::tool {

// "<name> holds <dtype>; <wanted>".
[[noreturn]] void refuse_type(std::string_view name, const Array& array, std::string_view wanted);

// [B, L, H, D]; fewer dimensions are those of one batch entry, and of one head.
Array as_sequence(const std::string& name, const Array& array);

// Four dimensions, ones in front.
Array as_bias(const std::string& name, const Array& array);
Array as_mask(const std::string& name, const Array& array);

// Slopes and sinks are float32, at most `rank` dimensions.
Array as_head_numbers(const std::string& name, const Array& array, int rank);

Array as_lengths(const std::string& name, const Array& array);     // [B]
Array as_cache_rows(const std::string& name, const Array& array);  // [B], int32
Array as_boundaries(const std::string& name, const Array& array);  // [B + 1]
Array as_table(const std::string& name, const Array& array);       // [B, max_pages], int32

}  // namespace tessera::tool
