#include "support/array.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace tessera::test {

namespace {

constexpr std::byte kPoison{0xff};   // a NaN in every floating type
constexpr std::int64_t kGuard = 13;  // elements; odd, so that no vector load is aligned by luck
constexpr std::int64_t kAlignedGuard = 16;  // what is allocated is aligned
constexpr std::int64_t kAlignedRow = 8;     // elements, of 16 bytes or more
constexpr std::int64_t kGap = 5;            // elements at the end of a padded row

// Dimensions from the outermost to the innermost.
std::array<int, 4> order_of(Layout layout) {
  if (layout == Layout::kHeadsFirst) return {0, 2, 1, 3};
  if (layout == Layout::kTransposed) return {0, 2, 3, 1};
  return {0, 1, 2, 3};
}

Index4 strides_of(const Index4& shape, Layout layout) {
  const std::array<int, 4> order = order_of(layout);
  Index4 stride{};
  std::int64_t step = layout == Layout::kSpread ? 3 : 1;
  for (int n = 3; n >= 0; --n) {
    const auto axis = std::size_t(order[std::size_t(n)]);
    stride[axis] = step;
    if (layout == Layout::kSharedByHeads && axis == 2) {
      stride[axis] = 0;
      continue;
    }
    step *= std::max<std::int64_t>(1, shape[axis]);
    if (layout == Layout::kPadded && n == 3) step += kGap;
    if (layout == Layout::kAligned && n == 3)
      step = (step + kAlignedRow - 1) / kAlignedRow * kAlignedRow;
  }
  return stride;
}

}  // namespace

std::string_view name_of(Layout layout) {
  constexpr std::string_view names[] = {"dense",  "heads-first", "transposed",      "spread",
                                        "padded", "reversed",    "shared-by-heads", "aligned"};
  return names[std::size_t(layout)];
}

std::int64_t dense_index(const Index4& shape, const Index4& i) {
  return ((i[0] * shape[1] + i[1]) * shape[2] + i[2]) * shape[3] + i[3];
}

Array::Array(DType dtype, const Index4& shape, Layout layout) {
  view_.dtype = dtype;
  view_.shape = shape;
  view_.stride = strides_of(shape, layout);
  std::int64_t extent = 1;
  for (std::size_t n = 0; n < 4; ++n)
    extent += std::max<std::int64_t>(0, shape[n] - 1) * view_.stride[n];
  const std::int64_t size = core::size_of(dtype);
  const std::int64_t guard = layout == Layout::kAligned ? kAlignedGuard : kGuard;
  origin_ = guard * size;
  if (layout == Layout::kReversed && shape[1] > 0) {
    origin_ += (shape[1] - 1) * view_.stride[1] * size;
    view_.stride[1] = -view_.stride[1];
  }
  bytes_.resize(std::size_t((extent + 2 * guard) * size), kPoison);
}

core::Tensor Array::tensor() const {
  core::Tensor t = view_;
  if (present()) t.data = const_cast<std::byte*>(bytes_.data()) + origin_;
  return t;
}

tessera_tensor abi_tensor(const core::Tensor& t) {
  tessera_tensor result = tessera_tensor_default();
  result.data = t.data;
  result.dtype = std::uint32_t(t.dtype);
  std::copy(t.shape.begin(), t.shape.end(), result.shape);
  std::copy(t.stride.begin(), t.stride.end(), result.stride);
  return result;
}

tessera_tensor Array::abi() const {
  return present() ? abi_tensor(tensor()) : tessera_tensor_default();
}

void store(const core::Tensor& t, const Index4& i, double x) {
  std::byte* to = t.at(i[0], i[1], i[2], i[3]);
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (t.dtype) {
    case DType::kInt64: put(std::int64_t(x)); break;
    case DType::kInt32: put(std::int32_t(x)); break;
    case DType::kUint8:
    case DType::kBool: put(std::uint8_t(x != 0)); break;
    default: core::store_element(t.dtype, to, x);
  }
}

void Array::expand(int axis, std::int64_t size) {
  view_.shape[std::size_t(axis)] = size;
  view_.stride[std::size_t(axis)] = 0;
}

Array Array::converted(DType dtype, Layout layout) const {
  if (!present()) return {};
  Array result(dtype, shape(), layout);
  result.fill([this](const Index4& i) { return at(i[0], i[1], i[2], i[3]); });
  return result;
}

std::vector<std::byte> Array::elements() const {
  std::vector<std::byte> result;
  if (!present()) return result;
  const auto size = std::size_t(core::size_of(dtype()));
  result.reserve(std::size_t(count()) * size);
  const core::Tensor t = tensor();
  for_each([&](const Index4& i) {
    const std::byte* from = t.at(i[0], i[1], i[2], i[3]);
    result.insert(result.end(), from, from + size);
  });
  return result;
}

void Array::poison() { std::fill(bytes_.begin(), bytes_.end(), kPoison); }

bool Array::surroundings_intact() const {
  std::vector<std::byte> rest = bytes_;
  const core::Tensor t = view_;
  const std::int64_t size = core::size_of(dtype());
  for_each([&](const Index4& i) {
    std::byte* from = rest.data() + origin_ + t.offset(i[0], i[1], i[2], i[3]) * size;
    std::fill(from, from + size, kPoison);
  });
  return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == kPoison; });
}

}  // namespace tessera::test
