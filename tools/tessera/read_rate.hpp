// The rate at which this machine reads memory, measured: what decoding is bound by.
#pragma once
#include <cstddef>
#include <memory>

namespace tessera::tool {

// Memory filled with zeros, on pages of 2 MiB where the system lends them: with small ones every
// page costs a walk through tables. Throws std::bad_alloc.
std::shared_ptr<void> huge_pages(std::size_t bytes);

class ReadRate {
 public:
  explicit ReadRate(int threads);

  // Reads 256 MiB, more than caches hold, once on all threads: GB/s of all together.
  double burst() const;

 private:
  int threads_;
  std::shared_ptr<void> memory_;
};

}  // namespace tessera::tool
