// Shared memory of a block: queries, and a ring of stages of keys and values.
#pragma once
#include <isa/memory.cuh>

#include "device/tile/shared.cuh"

namespace tessera::device {

template <class C> struct Memory {
  SharedTile<C::kTileQ, C::kDim> q{isa::shared_base()};

  using Keys = SharedTile<C::kTileK, C::kDim>;
  TS_DEVICE Keys keys(int step) const { return stage(step % C::kStages); }
  TS_DEVICE Keys values(int step) const { return stage(C::kStages + step % C::kStages); }

 private:
  TS_DEVICE Keys stage(int i) const {
    return {Address(u32(q.base) + u32(C::kQueryBytes + i * C::kKeyBytes))};
  }
};

}  // namespace tessera::device
