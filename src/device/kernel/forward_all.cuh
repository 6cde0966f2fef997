// The forward kernels under one name: Config says which.
#pragma once
#include "device/kernel/forward_band_sm80.cuh"
#include "device/kernel/forward_f32_sm80.cuh"
#include "device/kernel/forward_sm80.cuh"

namespace tessera::device {

template <class C> TS_DEVICE void forward_of(const ForwardParams& p) {
  if constexpr (C::kWeighing == Weighing::kFloat32)
    forward_f32<C>(p);
  else if constexpr (C::kWeighing == Weighing::kBand || C::kWeighing == Weighing::kPairs)
    forward_band<C>(p);
  else
    forward<C>(p);
}

}  // namespace tessera::device
