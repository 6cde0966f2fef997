// What a verb prints: lines for people, JSON for programs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/tessera/call.hpp"

namespace tessera::tool {

// "label           value" on standard output.
void print_line(std::string_view label, std::string_view value);

// One JSON object as lines of names and values, inner objects indented.
std::string json_as_text(const std::string& json);

// What was chosen for a call.
struct Choice {
  std::string backend, target;
  std::int64_t threads = 1;
};
Choice choice_of(const std::string& plan_json);
// "cpu, target avx2, 2 threads".
std::string to_text(const Choice& choice);

// "B 1, Lq 512, Lk 512, H 8, Hk 8, D 64, Dv 64".
std::string shape_in_words(const Shape& shape);

}  // namespace tessera::tool
