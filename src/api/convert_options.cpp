// Scale, cap, band, dropout and backend; what this version cannot do yet.
#include <cmath>

#include "api/convert_parts.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::Alignment;
using core::Band;
using core::Problem;

void check_numbers(const Desc& desc) {
  require(std::isnan(desc.scale) || (desc.scale >= 0 && std::isfinite(desc.scale)),
          Sentence::kScale, double{desc.scale});
  require(desc.softcap >= 0 && std::isfinite(desc.softcap), Sentence::kSoftcap,
          double{desc.softcap});
  require(desc.left >= 0, Sentence::kBand, std::string_view("left"), desc.left);
  require(desc.right >= 0, Sentence::kBand, std::string_view("right"), desc.right);
  require(desc.dropout_p >= 0 && desc.dropout_p < 1, Sentence::kDropout, double{desc.dropout_p});
}

// What the descriptor can say and this version cannot do.
void check_supported(const Desc& desc) {
  require(desc.mask_expr == nullptr, Sentence::kExpression, std::string_view("mask_expr"));
  require(desc.score_expr == nullptr, Sentence::kExpression, std::string_view("score_expr"));
  require(desc.bindings == nullptr && desc.binding_count == 0, Sentence::kExpression,
          std::string_view("bindings"));
}

// The device of q is that of the call.
void convert_place(const Desc& desc, Call& call) {
  call.where = {desc.q.device_type, desc.q.device_id};
  const bool gpu = call.where.on_gpu();
  require(desc.backend <= TESSERA_BACKEND_EMULATOR, Sentence::kBackend, std::int64_t{desc.backend});
  require(desc.backend == TESSERA_BACKEND_AUTO || (desc.backend == TESSERA_BACKEND_CUDA) == gpu,
          Sentence::kBackendDevice, std::int64_t{desc.backend}, std::int64_t{call.where.type});
  require(desc.stream == nullptr || gpu, Sentence::kStream);
  call.backend = gpu ? plan::Backend::kCuda : plan::Backend(desc.backend);
  call.stream = desc.stream;
}

void check_pointer(std::string_view name, const void* pointer, std::int64_t alignment) {
  const auto rest =
      std::int64_t(reinterpret_cast<std::uintptr_t>(pointer) % std::uint64_t(alignment));
  require(rest == 0, Sentence::kMisalignedPointer, name, rest, alignment);
}

Alignment alignment_of(std::uint32_t align) {
  switch (align) {
    case TESSERA_ALIGN_BOTTOM_RIGHT: return Alignment::kBottomRight;
    case TESSERA_ALIGN_OFFSET: return Alignment::kOffset;
    case TESSERA_ALIGN_OFFSETS: return Alignment::kOffsets;
    default: return Alignment::kTopLeft;
  }
}

void convert_band(const Desc& desc, Problem& p) {
  require(desc.align <= TESSERA_ALIGN_OFFSETS, Sentence::kAlign, std::int64_t{desc.align});
  require(desc.offset == 0 || desc.align == TESSERA_ALIGN_OFFSET, Sentence::kOffsetUnused,
          desc.offset, std::int64_t{desc.align});
  require(given(desc.offsets) == (desc.align == TESSERA_ALIGN_OFFSETS), Sentence::kOffsets,
          std::string_view(given(desc.offsets) ? "given" : "absent"), std::int64_t{desc.align});
  p.left = Band::clamp(desc.left);
  p.right = Band::clamp(desc.right);
  p.offset = Band::clamp(desc.offset);
  p.alignment = alignment_of(desc.align);
}

}  // namespace

void check_workspace(const void* workspace, std::uint64_t bytes) {
  require(workspace != nullptr || bytes == 0, Sentence::kNoWorkspace, bytes);
  check_pointer("workspace", workspace, kWorkspaceAlignment);
}

void check_diagnostics(std::string_view name, const double* place, std::uint32_t backend) {
  require(place == nullptr || backend == TESSERA_BACKEND_REFERENCE, Sentence::kDiagnostics, name,
          std::int64_t{backend}, name);
  check_pointer(name, place, alignof(double));
}

void convert_options(const Desc& desc, Call& call) {
  require((desc.flags & ~std::uint32_t{TESSERA_BATCH_INVARIANT}) == 0, Sentence::kAttentionFlags,
          Hex{desc.flags});
  require(desc.flags == 0 || desc.backend != TESSERA_BACKEND_STANDARD, Sentence::kNotInvariant);
  convert_place(desc, call);
  check_numbers(desc);
  check_supported(desc);
  check_workspace(desc.workspace, desc.workspace_bytes);
  check_diagnostics("score_max", desc.score_max, desc.backend);
  convert_band(desc, call.problem);
  call.problem.batch_invariant = (desc.flags & TESSERA_BATCH_INVARIANT) != 0;
  call.problem.scale = double{desc.scale};
  call.problem.softcap = desc.softcap;
  call.problem.dropout = {desc.dropout_p, desc.dropout_seed, desc.dropout_offset};
  call.workspace = desc.workspace;
  call.workspace_bytes = desc.workspace_bytes;
  call.score_max = desc.score_max;
}

}  // namespace tessera::api
