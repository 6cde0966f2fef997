// tessera_merge: its checks.
#include "core/merge.hpp"

#include <string>
#include <vector>

#include "api/context.hpp"
#include "api/convert_parts.hpp"
#include "api/door.hpp"
#include "api/guard.hpp"
#include "api/tensors.hpp"
#include "api/versioned.hpp"

namespace tessera::api {
namespace {

constexpr Versioned<tessera_merge_desc> kMergeDesc{"desc", "tessera_merge_desc", 232,
                                                   tessera_merge_desc_default};

// What a merge writes, and the shapes that follow for its states.
struct Merged {
  NamedTensor out, lse;
  WantedShape out_shape, lse_shape;

  explicit Merged(const tessera_merge_desc& desc)
      : out(read_output("out", desc.out, TypeSet::kBias)),
        lse{"lse", {}},
        out_shape{out.tensor.shape, 4, "[B, Lq, H, Dv]", "out"},
        lse_shape{{out.tensor.shape[0], out.tensor.shape[2], out.tensor.shape[1], 1},
                  3,
                  "[B, H, Lq]",
                  "out"} {
    require_dim(out);
    if (!given(desc.lse)) return;
    lse = read_output("lse", desc.lse, TypeSet::kFloat32);
    require_shape(lse, lse_shape);
  }
};

// In place, row by row, is fine: then `read` is the very tensor that is written.
void require_apart_or_same(const NamedTensor& written, const NamedTensor& read) {
  if (written.tensor != read.tensor) require_apart({&written, 1}, {&read, 1});
}

core::StateTensors read_state(const tessera_state& state, std::uint64_t index,
                              const Merged& merged) {
  const std::string name = "states[" + std::to_string(index) + "]";
  const std::string out_name = name + ".out", lse_name = name + ".lse";
  const NamedTensor out = read_tensor(out_name, state.out, TypeSet::kFloat32);
  const NamedTensor lse = read_tensor(lse_name, state.lse, TypeSet::kFloat32);
  require_shape(out, merged.out_shape);
  require_shape(lse, merged.lse_shape);
  require_apart_or_same(merged.out, out);
  require_apart_or_same(merged.lse, lse);
  require_apart({&merged.out, 1}, {&lse, 1});
  require_apart({&merged.lse, 1}, {&out, 1});
  return {out.tensor, lse.tensor};
}

void merge(const tessera_merge_desc& desc) {
  require_zero(kMergeDesc.type, desc.flags, 0);
  require(desc.states != nullptr || desc.count == 0, Sentence::kStates, desc.count);
  const Merged merged(desc);
  require_apart({&merged.out, 1}, {&merged.lse, 1});
  std::vector<core::StateTensors> states;
  for (std::uint64_t i = 0; i < desc.count; ++i)
    states.push_back(read_state(desc.states[i], i, merged));
  core::merge(states, {merged.out.tensor, merged.lse.tensor});
}

}  // namespace
}  // namespace tessera::api

tessera_status tessera_merge(tessera_context* context, const tessera_merge_desc* desc,
                             tessera_error* error) {
  using namespace tessera::api;
  return guard(error, [&] {
    tessera_merge_desc ours;
    require_context(context);
    merge(read_versioned(kMergeDesc, desc, ours));
  });
}
