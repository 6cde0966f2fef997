// Tiles of keys or values on their way through shared memory: one thread fills stages by the copy
// engine, warpgroups empty them. Tile n of the ring lives in stage n % kStages.
#pragma once
#include <isa/mbarrier.cuh>
#include <isa/tensor_copy.cuh>

#include "device/types.cuh"

namespace tessera::device {

// Where a tile begins: row, head and batch of its tensor.
struct TilePlace {
  int row, head, batch;
};

// A tile of 64-column panels, `step` bytes apart.
template <int panels>
TS_DEVICE void load_panels(Address to, int step, const TensorMap& map, Address barrier,
                           TilePlace at) {
  TS_UNROLL for (int c = 0; c < panels; ++c)
      isa::tensor_load(Address(u32(to) + u32(c * step)), map, barrier,
                       Coordinates{64 * c, at.row, at.head, at.batch});
}

template <class C> struct Ring {
  Address tiles, barriers;  // of each stage: full, then empty

  TS_DEVICE static u32 stage(int n) { return u32(n % C::kStages); }
  TS_DEVICE static u32 parity(int n) { return u32(n / C::kStages) & 1; }
  TS_DEVICE Address tile(int n) const { return Address(u32(tiles) + stage(n) * u32(C::kKeyBytes)); }
  TS_DEVICE Address full(int n) const { return Address(u32(barriers) + 8 * stage(n)); }
  TS_DEVICE Address empty(int n) const { return Address(u32(full(n)) + 8 * C::kStages); }

  TS_DEVICE void init(const char* full_label, const char* empty_label) const {
    for (int s = 0; s < C::kStages; ++s) {
      isa::mbarrier_init(full(s), 1, full_label);
      isa::mbarrier_init(empty(s), C::kConsumers, empty_label);
    }
  }
  // Waits until the stage is free, then starts the copy.
  TS_DEVICE void fill(int n, const TensorMap& map, TilePlace at) const {
    isa::mbarrier_wait(empty(n), parity(n) ^ 1);
    isa::mbarrier_arrive_expect(full(n), C::kKeyBytes);
    load_panels<C::kPanels>(tile(n), C::kPanelOfKeys, map, full(n), at);
  }
  TS_DEVICE void wait(int n) const { isa::mbarrier_wait(full(n), parity(n)); }
  // One thread speaks for its warpgroup.
  TS_DEVICE void release(int n) const {
    if (isa::thread() % 128 == 0) isa::mbarrier_arrive(empty(n));
  }
};

}  // namespace tessera::device
