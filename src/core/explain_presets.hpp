// Cases that teach, as options of `tessera explain`.
#pragma once
#include <span>
#include <string_view>

namespace tessera::core {

struct ExplainPreset {
  std::string_view name, title;
  std::string_view words;   // options, separated by single spaces
  std::string_view lesson;  // what to look at
};

std::span<const ExplainPreset> explain_presets();
const ExplainPreset* find_preset(std::string_view name);  // null if there is none of that name

}  // namespace tessera::core
