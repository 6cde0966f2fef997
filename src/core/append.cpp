#include "core/append.hpp"

#include <cstring>
#include <vector>

namespace tessera::core {
namespace {

// The bits of every element, whatever they say.
void copy_row(const Tensor& to, const Index4& there, const Tensor& from, const Index4& here) {
  const std::int64_t size = size_of(from.dtype);
  std::byte* out = to.at(there[0], there[1], there[2]);
  const std::byte* in = from.at(here[0], here[1], here[2]);
  if (to.stride[3] == 1 && from.stride[3] == 1) {
    std::memcpy(out, in, std::size_t(from.shape[3] * size));
    return;
  }
  for (std::int64_t d = 0; d < from.shape[3]; ++d)
    std::memcpy(out + d * to.stride[3] * size, in + d * from.stride[3] * size, std::size_t(size));
}

}  // namespace

void append(const Append& a) {
  std::vector<double> row(static_cast<std::size_t>(a.k.shape[3]));
  for (std::int64_t b = 0; b < a.k.shape[0]; ++b)
    for (std::int64_t i = 0; i < a.k.shape[1]; ++i) {
      const std::int64_t j = a.kv_lengths.load_int(b) + i;
      const KeyPlace at = a.place(b, j);
      for (std::int64_t h = 0; h < a.k.shape[2]; ++h) {
        const Index4 there{at.batch, at.row, h, 0}, here{b, i, h, 0};
        copy_row(a.v_cache, there, a.v, here);
        if (!a.rotary.present()) {
          copy_row(a.k_cache, there, a.k, here);
          continue;
        }
        load_row(a.k, here, row);
        a.rotary.turn(j, row);
        store_row(a.k_cache, there, row);
      }
    }
}

}  // namespace tessera::core
