#include "core/rotary.hpp"

#include <vector>

namespace tessera::core {

void Rotary::turn(std::int64_t position, std::span<double> row) const {
  const bool halves = layout == RotaryLayout::kHalves;
  const auto n = std::size_t(pairs());
  for (std::size_t c = 0; c < n; ++c) {
    double &x = row[halves ? c : 2 * c], &y = row[halves ? c + n : 2 * c + 1];
    const auto a = float(x), b = float(y);
    const auto cosine = float(cos.load(position, std::int64_t(c)));
    const auto sine = float(sin.load(position, std::int64_t(c)));
    x = a * cosine - b * sine;
    y = a * sine + b * cosine;
  }
}

void rotate(const Rotation& r) {
  const Index4& shape = r.x.shape;
  std::vector<double> row(static_cast<std::size_t>(shape[3]));
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      const std::int64_t position = r.position(b, i);
      for (std::int64_t h = 0; h < shape[2]; ++h) {
        load_row(r.x, {b, i, h, 0}, row);
        r.rotary.turn(position, row);
        store_row(r.out, {b, i, h, 0}, row);
      }
    }
}

}  // namespace tessera::core
