// Any bytes as a .safetensors file: refused with a sentence, or tensors whose every element can be
// read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tools/tessera/failure.hpp"
#include "tools/tessera/safetensors.hpp"

namespace tessera::tool {
namespace {

Contents contents_of(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  return {"fuzz.safetensors", std::make_shared<std::vector<std::byte>>(bytes, bytes + size)};
}

void check_refusal(const Failure& failure) {
  if (failure.exit_code() != kBadInput || failure.what()[0] == 0) std::abort();
}

double sum(const Array& array) {
  double total = 0;
  for_each_index(array.tensor.shape,
                 [&](const core::Index4& i) { total += load(array.tensor, i); });
  return total;
}

void read(const Safetensors& file, const std::string& name) {
  try {
    volatile double kept = sum(file.get(name));
    (void)kept;
  } catch (const Failure& failure) {
    check_refusal(failure);  // a type that is not computed with
  }
}

}  // namespace
}  // namespace tessera::tool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::tool;
  try {
    const Safetensors file(contents_of(data, size));
    for (const std::string& name : file.names()) read(file, name);
  } catch (const Failure& failure) {
    check_refusal(failure);
  }
  return 0;
}
