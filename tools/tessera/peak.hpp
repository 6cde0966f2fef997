// The ceiling of this processor, measured: multiply-adds from registers alone.
#pragma once
#include <string_view>

#include "core/dtype.hpp"

namespace tessera::tool {

struct PeakUnit;  // an instruction that multiplies and adds

class Peak {
 public:
  // The widest unit for elements of this type on `threads` threads. float16 has no arithmetic of
  // its own in our kernels, so its ceiling is that of float32.
  Peak(core::DType dtype, int threads);

  // False where there is no unit that we know: processors other than x86-64 with AVX2.
  bool present() const { return unit_ != nullptr; }
  std::string_view name() const;  // as in "float32 FMA"

  // Runs the unit on all threads for about 9 ms: GFLOP/s of all together; 0 if not present().
  double burst();
  // The best burst so far.
  double best() const { return best_; }

 private:
  const PeakUnit* unit_;
  int threads_;
  double best_ = 0;
};

}  // namespace tessera::tool
