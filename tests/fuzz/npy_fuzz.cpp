// Any bytes as a .npy file: refused with a sentence, or an array whose every element can be read
// and that comes back from the writer.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tools/tessera/failure.hpp"
#include "tools/tessera/npy.hpp"

namespace tessera::tool {
namespace {

Contents contents_of(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return {"fuzz.npy", std::make_shared<std::vector<std::byte>>(bytes, bytes + size)};
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check(bool condition) {
  if (!condition) std::abort();
}

// Reads every element, and writes what can be written.
void check_round_trip(const Array& array) {
  if (!core::is_float(array.tensor.dtype)) {
    volatile double sum = 0;
    for_each_index(array.tensor.shape,
                   [&](const core::Index4& i) { sum = sum + load(array.tensor, i); });
    return;
  }
  const std::string text = npy_bytes(converted(array, array.tensor.dtype));
  const Array again = read_npy(contents_of(text.data(), text.size()));
  check(again.tensor.shape == array.tensor.shape);
  for_each_index(array.tensor.shape, [&](const core::Index4& i) {
    check(same(load(array.tensor, i), load(again.tensor, i)));
  });
}

}  // namespace
}  // namespace tessera::tool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::tool;
  try {
    const Array array = read_npy(contents_of(data, size));
    check(array.rank <= 4);
    check_round_trip(array);
  } catch (const Failure& failure) {
    check(failure.exit_code() == kBadInput && failure.what()[0] != 0);
  }
  return 0;
}
