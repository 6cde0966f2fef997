#include "cuda/source.hpp"

#include "cuda/embedded.hpp"

namespace tessera::cuda {
namespace {

void replace(std::string& text, std::string_view place, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(place, at)) != text.npos; at += by.size())
    text.replace(at, place.size(), by);
}

}  // namespace

std::string entry_text(const plan::KernelKey& key) {
  std::string text(entry_template());
  replace(text, "@FAMILY@", std::to_string(key.family));
  replace(text, "@ELEMENT@", key.dtype == core::DType::kFloat16 ? "Float16" : "Bfloat16");
  replace(text, "@DIM@", std::to_string(key.dim));
  replace(text, "@NAME@", plan::name_of(key));
  return text;
}

}  // namespace tessera::cuda
