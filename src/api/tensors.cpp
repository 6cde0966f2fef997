#include "api/tensors.hpp"

#include "api/convert_parts.hpp"
#include "api/overlap.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::Tensor;

Shape shape_of(const tessera_tensor& t) {
  return {{t.shape[0], t.shape[1], t.shape[2], t.shape[3]}};
}

void require_apart(const NamedTensor& written, const NamedTensor& other) {
  const Tensor &a = written.tensor, &b = other.tensor;
  if (!a.present() || a.empty() || !b.present() || b.empty()) return;
  require(!overlap(a, b), Sentence::kOverlap, written.name, other.name, written.name);
}

void check_table(const NamedTensor& table, const NamedTensor& x) {
  const core::DType dtype = table.tensor.dtype;
  require(dtype == core::DType::kFloat32 || dtype == x.tensor.dtype, Sentence::kTableDtype,
          table.name, core::name_of(dtype), x.name, core::name_of(x.tensor.dtype));
}

}  // namespace

NamedTensor read_optional(std::string_view name, const tessera_tensor& t, TypeSet types) {
  return {name, given(t) ? convert_tensor({name, types}, t) : Tensor()};
}

NamedTensor read_tensor(std::string_view name, const tessera_tensor& t, TypeSet types) {
  require(given(t), Sentence::kMissing, name, shape_of(t));
  return read_optional(name, t, types);
}

NamedTensor read_output(std::string_view name, const tessera_tensor& t, TypeSet types) {
  const NamedTensor output = read_tensor(name, t, types);
  require((t.flags & TESSERA_READ_ONLY) == 0, Sentence::kReadOnlyOutput, name);
  require(!overlaps_itself(output.tensor), Sentence::kSelfOverlap, name, Shape{output.tensor.shape},
          Shape{output.tensor.stride});
  return output;
}

void require_shape(const NamedTensor& t, const WantedShape& wanted) {
  const core::Index4& shape = t.tensor.shape;
  require(shape == wanted.sizes, Sentence::kOtherShape, t.name,
          Shape{shape, rank_of(shape, wanted.rank)}, Shape{wanted.sizes, wanted.rank},
          wanted.letters, wanted.like);
}

void require_dim(const NamedTensor& t) {
  require(t.tensor.shape[3] >= 1, Sentence::kNoDim, t.name, Shape{t.tensor.shape});
}

void require_same_dtype(const NamedTensor& t, const NamedTensor& as) {
  require(t.tensor.dtype == as.tensor.dtype, Sentence::kOtherDtype, t.name,
          core::name_of(t.tensor.dtype), as.name, core::name_of(as.tensor.dtype));
}

void require_apart(std::span<const NamedTensor> written, std::span<const NamedTensor> read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const NamedTensor& later : written.subspan(i + 1)) require_apart(written[i], later);
    for (const NamedTensor& other : read) require_apart(written[i], other);
  }
}

core::Rotary read_rotary(std::uint32_t layout, const tessera_tensor& cos_given,
                         const tessera_tensor& sin_given, const NamedTensor& x) {
  require(layout <= TESSERA_ROTARY_INTERLEAVED, Sentence::kRotaryLayout, std::int64_t{layout});
  require(given(sin_given) || !given(cos_given), Sentence::kNeeds, std::string_view("cos"),
          std::string_view("sin"));
  require(given(cos_given) || !given(sin_given), Sentence::kNeeds, std::string_view("sin"),
          std::string_view("cos"));
  const NamedTensor cos = read_optional("cos", cos_given, TypeSet::kBias);
  const NamedTensor sin = read_optional("sin", sin_given, TypeSet::kBias);
  if (!given(cos_given)) return {};
  const core::Index4& shape = cos.tensor.shape;
  const std::int64_t dim = x.tensor.shape[3];
  require(shape[2] == 1 && shape[3] == 1 && shape[1] >= 1 && shape[1] <= dim / 2,
          Sentence::kRotaryDim, Shape{shape, rank_of(shape, 2)}, x.name, dim);
  require_shape(sin, {shape, 2, "[positions, R / 2]", "cos"});
  check_table(cos, x);
  check_table(sin, x);
  return {cos.tensor, sin.tensor, core::RotaryLayout(layout)};
}

void require_zero(std::string_view type, std::uint32_t flags, std::uint32_t reserved) {
  require(flags == 0, Sentence::kFlags, std::string_view("desc"), Hex{flags});
  require(reserved == 0, Sentence::kReserved, std::string_view("desc"), type);
}

}  // namespace tessera::api
