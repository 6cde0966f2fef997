#include "cuda/source.hpp"

#include "cuda/embedded.hpp"

namespace tessera::cuda {
namespace {

void replace(std::string& text, std::string_view place, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(place, at)) != text.npos; at += by.size())
    text.replace(at, place.size(), by);
}

std::string_view element_of(core::DType dtype) {
  if (dtype == core::DType::kFloat32) return "float";
  return dtype == core::DType::kFloat16 ? "Float16" : "Bfloat16";
}

std::string_view enumerator_of(device::Weighing weighing) {
  switch (weighing) {
    case device::Weighing::kBand: return "kBand";
    case device::Weighing::kPairs: return "kPairs";
    case device::Weighing::kExact: return "kExact";
    case device::Weighing::kFloat32: return "kFloat32";
    default: return "kRounded";
  }
}

}  // namespace

std::string entry_text(const plan::KernelKey& key) {
  std::string text(entry_template());
  replace(text, "@ELEMENT@", element_of(key.dtype));
  replace(text, "@WEIGHING@", enumerator_of(key.weighing));
  replace(text, "@DIM@", std::to_string(key.dim));
  replace(text, "@NAME@", plan::name_of(key));
  return text;
}

}  // namespace tessera::cuda
