// What a call writes must be writable, have each element in its own place, and lie apart from all
// that it reads or writes besides.
#include <algorithm>
#include <array>
#include <cstddef>
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

bool lies_somewhere(const Tensor& t) { return t.present() && !t.empty(); }

void check_pair(const Named& written, const Interval& place, const Named& other) {
  const Tensor& t = *other.tensor;
  if (!lies_somewhere(t) || apart(place, interval_of(t))) return;
  require(!overlap(*written.tensor, t), Sentence::kOverlap, written.name, other.name, written.name);
}

}  // namespace

void check_apart(std::span<const Named> written, std::span<const Named> read) {
  for (; !written.empty(); written = written.subspan(1)) {
    const Named& first = written.front();
    if (!lies_somewhere(*first.tensor)) continue;
    const Interval place = interval_of(*first.tensor);
    for (const Named& later : written.subspan(1)) check_pair(first, place, later);
    for (const Named& other : read) check_pair(first, place, other);
  }
}

Tensor bytes_at(void* data, std::uint64_t bytes) {
  const auto size = std::int64_t(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 48));
  return {data, {size, 1, 1, 1}, {1, 0, 0, 1}, DType::kUint8};
}

void check_writable(std::string_view name, const tessera_tensor& given, const Tensor& t) {
  require((given.flags & TESSERA_READ_ONLY) == 0, Sentence::kReadOnlyOutput, name);
  require(!overlaps_itself(t), Sentence::kSelfOverlap, name, Shape{t.shape}, Shape{t.stride});
}

void check_outputs(const Desc& desc, const Call& call) {
  const Problem& p = call.problem;
  std::array<Named, kMostFields> read;
  std::size_t inputs = 0;
  for (const Field& field : fields()) {
    if (field.use == Use::kInput)
      read[inputs++] = {field.name, &(p.*field.tensor)};
    else if (given(desc.*field.given))
      check_writable(field.name, desc.*field.given, p.*field.tensor);
  }
  const Tensor workspace = bytes_at(call.workspace, call.workspace_bytes);
  const Tensor score_max = bytes_at(call.score_max, sizeof(double));
  const Named written[] = {
      {"out", &p.out}, {"lse", &p.lse}, {"workspace", &workspace}, {"score_max", &score_max}};
  check_apart(written, std::span(read).first(inputs));
}

}  // namespace tessera::api
