// What a call writes must be writable, have each element in its own place, and lie apart from all
// that it reads or writes besides.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "api/convert_parts.hpp"
#include "api/overlap.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::DType;
using core::Problem;
using core::Tensor;

// Memory that the call writes.
struct Written {
  std::string_view name;
  Tensor tensor;

  void check_apart(const Interval& place, std::string_view other_name, const Tensor& other) const {
    if (!other.present() || other.empty() || apart(place, interval_of(other))) return;
    require(!overlap(tensor, other), Sentence::kOverlap, name, other_name, name);
  }
};

// Against the other tensors that are written after it, and against all that are read.
void check_apart(const Written& written, std::span<const Written> later, const Problem& problem) {
  if (!written.tensor.present() || written.tensor.empty()) return;
  const Interval place = interval_of(written.tensor);
  for (const Written& other : later) written.check_apart(place, other.name, other.tensor);
  for (const Field& field : fields())
    if (field.use == Use::kInput) written.check_apart(place, field.name, problem.*field.tensor);
}

Tensor bytes_at(void* data, std::uint64_t bytes) {
  const auto size = std::int64_t(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 48));
  return {data, {size, 1, 1, 1}, {1, 0, 0, 1}, DType::kUint8};
}

void check_writable(const Field& field, const tessera_tensor& given_tensor, const Tensor& t) {
  require((given_tensor.flags & TESSERA_READ_ONLY) == 0, Sentence::kReadOnlyOutput, field.name);
  require(!overlaps_itself(t), Sentence::kSelfOverlap, field.name, Shape{t.shape}, Shape{t.stride});
}

}  // namespace

void check_outputs(const Desc& desc, const Call& call) {
  const Problem& p = call.problem;
  for (const Field& field : fields())
    if (field.use == Use::kOutput && given(desc.*field.given))
      check_writable(field, desc.*field.given, p.*field.tensor);
  const Written all[] = {{"out", p.out},
                         {"lse", p.lse},
                         {"workspace", bytes_at(call.workspace, call.workspace_bytes)},
                         {"score_max", bytes_at(call.score_max, sizeof(double))}};
  std::span<const Written> later(all);
  for (const Written& written : all) {
    later = later.subspan(1);
    check_apart(written, later, p);
  }
}

}  // namespace tessera::api
