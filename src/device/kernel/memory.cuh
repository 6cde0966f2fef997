// Shared memory of a block: queries, a ring of stages of keys and values, and where a kernel has
// them one of masks or biases.
#pragma once
#include <isa/memory.cuh>

#include "device/tile/shared.cuh"

namespace tessera::device {

template <class C> struct Memory {
  SharedTile<C::kTileQ, C::kDim> q{isa::shared_base()};

  using Keys = SharedTile<C::kTileK, C::kDim>;
  TS_DEVICE Keys keys(int step) const { return stage(step % C::kStages); }
  TS_DEVICE Keys values(int step) const { return stage(C::kStages + step % C::kStages); }
  TS_DEVICE Address pairs(int step) const {
    return Address(u32(stage(2 * C::kStages).base) + u32(step % C::kStages * C::kPairBytes));
  }
  TS_DEVICE Address shown() const { return before_end(C::kShownBytes + C::kNoteBytes); }
  // A word of each thread.
  TS_DEVICE Address note() const {
    return Address(u32(before_end(C::kNoteBytes)) + u32(4 * isa::thread()));
  }

 private:
  TS_DEVICE Address before_end(int bytes) const {
    return Address(u32(q.base) + u32(C::kSharedBytes - bytes));
  }
  TS_DEVICE Keys stage(int i) const {
    return {Address(u32(q.base) + u32(C::kQueryBytes + i * C::kKeyBytes))};
  }
};

}  // namespace tessera::device
