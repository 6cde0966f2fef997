#include "support/sparse.hpp"

#include <sys/mman.h>

namespace tessera::test {

SparseTensor::SparseTensor(DType dtype, const Index4& shape, const Index4& stride)
    : view_{nullptr, shape, stride, dtype} {
  std::int64_t extent = 1;
  for (std::size_t n = 0; n < 4; ++n) extent += (shape[n] - 1) * stride[n];
  bytes_ = std::uint64_t(extent * core::size_of(dtype));
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) view_.data = memory;
}

SparseTensor::~SparseTensor() {
  if (present()) munmap(view_.data, bytes_);
}

void SparseTensor::copy_rows_from(const Array& a, std::int64_t first) {
  a.for_each([&](const Index4& i) {
    store(view_, {i[0], first + i[1], i[2], i[3]}, a.at(i[0], i[1], i[2], i[3]));
  });
}

Array SparseTensor::copied() const {
  Array a(view_.dtype, view_.shape);
  a.fill([this](const Index4& i) { return view_.load(i[0], i[1], i[2], i[3]); });
  return a;
}

}  // namespace tessera::test
