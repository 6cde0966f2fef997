// Rotary position embedding (Su et al. 2021): pairs of elements turn by an angle that grows with
// the position, so that a product <q, k> depends on the difference of positions alone.
#pragma once
#include <cstdint>
#include <span>

#include "core/tensor.hpp"

namespace tessera::core {

enum class RotaryLayout : std::uint32_t { kHalves, kInterleaved };

// The angles, as tables [positions, R / 2]; absent: nothing turns.
struct Rotary {
  Tensor cos, sin;
  RotaryLayout layout = RotaryLayout::kHalves;

  bool present() const { return cos.present(); }
  std::int64_t pairs() const { return cos.shape[1]; }
  std::int64_t positions() const { return cos.shape[0]; }

  // Turns the first R elements of a row, in float32.
  void turn(std::int64_t position, std::span<double> row) const;
};

struct Rotation {
  Tensor x, out;              // [B, L, H, D]; out may be x
  Tensor offsets, positions;  // [B] and [B, L]; at most one is present
  Rotary rotary;

  // Of row i of sequence b.
  std::int64_t position(std::int64_t b, std::int64_t i) const {
    if (positions.present()) return positions.load_int(b, i);
    return (offsets.present() ? offsets.load_int(b) : 0) + i;
  }
};

void rotate(const Rotation& r);

}  // namespace tessera::core
