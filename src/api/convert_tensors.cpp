// Each tensor by itself: words, dtype, sizes, strides, address.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "api/convert_parts.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::DType;
using core::Tensor;

// Above any memory there is, and low enough that whatever is reckoned from sizes and strides, such
// as the bytes of a workspace, stays within 64 bits.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
constexpr std::int64_t kLargestReach = std::int64_t{1} << 48;

Shape strides_of(const tessera_tensor& t) {
  return {{t.stride[0], t.stride[1], t.stride[2], t.stride[3]}};
}

void check_words(std::string_view name, const tessera_tensor& t) {
  require(t.reserved[0] == 0 && t.reserved[1] == 0, Sentence::kReserved, name,
          std::string_view("tessera_tensor"));
  require((t.flags & ~std::uint32_t{TESSERA_READ_ONLY}) == 0, Sentence::kTensorFlags, name,
          Hex{t.flags});
  require(t.device_type == TESSERA_CPU || t.device_type == TESSERA_CUDA, Sentence::kDevice, name,
          std::int64_t{t.device_type});
}

void check_place(const About& about, const tessera_tensor& t) {
  if (about.where == nullptr)
    return require(t.device_type == TESSERA_CPU, Sentence::kHostOnly, about.name);
  const Where& q = *about.where;
  require(t.device_type == q.type && (t.device_id == q.id || !q.on_gpu()), Sentence::kOneDevice,
          about.name, std::int64_t{t.device_type}, std::int64_t{t.device_id}, std::int64_t{q.type},
          std::int64_t{q.id});
}

void check_dtype(const About& about, std::uint32_t number) {
  const auto dtype = DType(number);
  const Types& types = types_of(about.types);
  if (std::find(types.dtypes.begin(), types.dtypes.end(), dtype) != types.dtypes.end()) return;
  require(core::is_known(dtype), Sentence::kUnknownDtype, about.name, Hex{number});
  refuse(Sentence::kDtype, {about.name, core::name_of(dtype), types.words});
}

void check_sizes(std::string_view name, const core::Index4& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    require(size >= 0, Sentence::kNegativeSize, name, Shape{shape});
    const bool overflow =
        __builtin_mul_overflow(elements, std::max<std::int64_t>(1, size), &elements);
    require(!overflow && elements <= kMostElements, Sentence::kLargeSize, name, Shape{shape});
  }
}

// Whether all elements lie between the ends of memory and near enough to each other.
bool in_memory(const Tensor& t) {
  std::int64_t below = 0, above = size_of(t.dtype) - 1;
  for (std::size_t d = 0; d < 4; ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(t.shape[d] - 1, t.stride[d], &reach)) return false;
    if (reach > kLargestReach || reach < -kLargestReach) return false;
    (reach < 0 ? below : above) += reach * size_of(t.dtype);
  }
  if (above - below > kLargestReach) return false;
  const auto data = reinterpret_cast<std::uintptr_t>(t.data);
  return t.data == nullptr ||
         (data >= std::uintptr_t(-below) && data <= UINTPTR_MAX - std::uintptr_t(above));
}

void tame_strides(Tensor& t, Rule rule) {
  const bool empty = t.empty();
  for (std::size_t d = 0; d < 4; ++d)
    if (empty || t.shape[d] == 1) t.stride[d] = d == 3 && rule != Rule::kBroadcast ? 1 : 0;
}

bool required(const Field& field) { return field.types == TypeSet::kFloats; }

}  // namespace

void check_data(std::string_view name, const tessera_tensor& t, Purpose purpose) {
  require(purpose == Purpose::kDescribe || given(t), Sentence::kMissing, name,
          Shape{{t.shape[0], t.shape[1], t.shape[2], t.shape[3]}});
}

Tensor convert_tensor(const About& about, const tessera_tensor& g) {
  check_words(about.name, g);
  check_place(about, g);
  check_dtype(about, g.dtype);
  Tensor t{g.data,
           {g.shape[0], g.shape[1], g.shape[2], g.shape[3]},
           {g.stride[0], g.stride[1], g.stride[2], g.stride[3]},
           DType(g.dtype)};
  check_sizes(about.name, t.shape);
  tame_strides(t, about.rule);
  if (t.empty()) return t;
  require(in_memory(t), Sentence::kSpan, about.name, Shape{t.shape}, strides_of(g));
  const std::int64_t size = size_of(t.dtype);
  const auto rest = std::int64_t(reinterpret_cast<std::uintptr_t>(g.data) % std::uint64_t(size));
  require(rest == 0, Sentence::kMisaligned, about.name, rest, size);
  return t;
}

void convert_tensors(const Desc& desc, Purpose purpose, Call& call) {
  for (const Field& field : fields()) {
    const tessera_tensor& t = desc.*field.given;
    if (!given(t) && !required(field)) continue;
    check_data(field.name, t, purpose);
    call.problem.*field.tensor =
        convert_tensor({field.name, field.types, field.rule, &call.where}, t);
  }
}

}  // namespace tessera::api
