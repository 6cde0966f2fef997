// tessera_rotate: its checks.
#include "api/convert_parts.hpp"
#include "api/door.hpp"
#include "api/guard.hpp"
#include "api/tensors.hpp"
#include "api/versioned.hpp"
#include "core/rotary.hpp"

namespace tessera::api {
namespace {

constexpr Versioned<tessera_rotate_desc> kRotateDesc{"desc", "tessera_rotate_desc", 640,
                                                     tessera_rotate_desc_default};

void check_positions(const core::Rotation& r) {
  const std::int64_t positions = r.rotary.positions();
  for (std::int64_t b = 0; b < r.x.shape[0]; ++b)
    for (std::int64_t i = 0; i < r.x.shape[1]; ++i) {
      const std::int64_t position = r.position(b, i);
      require(position >= 0 && position < positions, Sentence::kPositionRange, i, b, position,
              positions);
    }
}

void rotate(const tessera_rotate_desc& desc) {
  require_zero(kRotateDesc.type, desc.flags, desc.reserved);
  const NamedTensor x = read_tensor("x", desc.x, TypeSet::kBias);
  const NamedTensor out = read_output("out", desc.out, TypeSet::kBias);
  const core::Index4& shape = x.tensor.shape;
  require_dim(x);
  require_shape(out, {shape, 4, "[B, L, H, D]", "x"});
  require_same_dtype(out, x);
  require(given(desc.cos), Sentence::kMissing, std::string_view("cos"), Shape{{0, 0}, 2});
  const core::Rotary rotary = read_rotary(desc.layout, desc.cos, desc.sin, x);
  require(!given(desc.offsets) || !given(desc.positions), Sentence::kTwoPositions);
  const NamedTensor offsets = read_optional("offsets", desc.offsets, TypeSet::kLengths);
  const NamedTensor positions = read_optional("positions", desc.positions, TypeSet::kLengths);
  if (given(desc.offsets)) require_shape(offsets, {{shape[0], 1, 1, 1}, 1, "[B]", "x"});
  if (given(desc.positions))
    require_shape(positions, {{shape[0], shape[1], 1, 1}, 2, "[B, L]", "x"});
  const NamedTensor read[] = {{"cos", rotary.cos}, {"sin", rotary.sin}, offsets, positions};
  require_apart({&out, 1}, read);
  if (out.tensor != x.tensor) require_apart({&out, 1}, {&x, 1});
  const core::Rotation rotation{x.tensor, out.tensor, offsets.tensor, positions.tensor, rotary};
  if (x.tensor.empty()) return;
  check_positions(rotation);
  core::rotate(rotation);
}

}  // namespace
}  // namespace tessera::api

tessera_status tessera_rotate(tessera_context* context, const tessera_rotate_desc* desc,
                              tessera_error* error) {
  using namespace tessera::api;
  return guard(error, [&] {
    tessera_rotate_desc ours;
    require_context(context);
    rotate(read_versioned(kRotateDesc, desc, ours));
  });
}
