// What arrays of lengths, boundaries and pages hold, and what follows from the longest sequence.
#include <algorithm>
#include <string_view>

#include "api/convert_parts.hpp"
#include "api/require.hpp"

namespace tessera::api {
namespace {

using core::Index4;
using core::Problem;
using core::Sequence;
using core::Tensor;

// Boundaries run from 0 on, never back, to at most `rows`, the rows of `of`.
void check_boundaries(std::string_view name, const Tensor& t, std::string_view of,
                      std::int64_t rows) {
  if (!t.present()) return;
  const std::int64_t last = t.shape[0] - 1;
  std::int64_t before = t.load_int(0);
  require(before == 0, Sentence::kFirstBoundary, name, before);
  for (std::int64_t b = 1; b <= last; ++b) {
    const std::int64_t row = t.load_int(b);
    require(row >= before, Sentence::kBoundaryOrder, name, b, row, before);
    before = row;
  }
  require(before <= rows, Sentence::kLastBoundary, name, last, before, of, rows);
}

std::int64_t rows_of(const Tensor& boundaries, std::int64_t b, std::int64_t rows) {
  return boundaries.present() ? boundaries.load_int(b + 1) - boundaries.load_int(b) : rows;
}

// Each length is from 0 to the rows of its sequence.
void check_range(std::string_view name, const Tensor& t, const Tensor& boundaries,
                 std::int64_t rows) {
  if (!t.present()) return;
  for (std::int64_t b = 0; b < t.shape[0]; ++b) {
    const std::int64_t length = t.load_int(b), capacity = rows_of(boundaries, b, rows);
    require(length >= 0 && length <= capacity, Sentence::kLengthRange, name, b, length, capacity);
  }
}

void check_cache_rows(const Problem& p) {
  if (!p.cache_batch_idx.present()) return;
  const std::int64_t rows = p.k.shape[0];
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t row = p.cache_batch_idx.load_int(b);
    require(row >= 0 && row < rows, Sentence::kRowRange, b, row, rows);
  }
}

void check_pages(const Problem& p) {
  if (!p.paged()) return;
  const std::int64_t pages = p.k.shape[0], page_size = p.k.shape[1];
  for (std::int64_t b = 0; b < p.batch; ++b) {
    std::int64_t needed = (p.kv_lengths.load_int(b) + page_size - 1) / page_size;
    if (p.block_table.stride[1] == 0) needed = std::min<std::int64_t>(needed, 1);
    for (std::int64_t i = 0; i < needed; ++i) {
      const std::int64_t page = p.block_table.load_int(b, i);
      require(page >= 0 && page < pages, Sentence::kPageRange, b, i, page, pages);
    }
  }
}

// Whether a mask or bias may be indexed up to `size` in dimension d.
bool covers(const Tensor& t, std::size_t d, std::int64_t size, bool more_is_fine) {
  return t.shape[d] == 1 || t.shape[d] == size || (more_is_fine && t.shape[d] > size);
}

// The queries and keys of a sequence; of the longest one where they differ, and 0 where that is
// known on a GPU alone.
core::Index4 pair_sizes(const Call& call, bool packed_q, bool loose_k) {
  const Problem& p = call.problem;
  Index4 sizes{p.batch, p.heads, packed_q ? 0 : p.queries, loose_k ? 0 : p.keys};
  if (call.where.on_gpu()) return sizes;
  for (std::int64_t b = 0; (packed_q || loose_k) && b < p.batch; ++b) {
    const Sequence s = p.sequence(b);
    if (packed_q) sizes[2] = std::max(sizes[2], s.queries);
    if (loose_k) sizes[3] = std::max(sizes[3], s.keys.end);
  }
  return sizes;
}

void check_diagonal(std::string_view why, const Desc& desc, const Call& call) {
  const Problem& p = call.problem;
  const bool vary = given(desc.cu_seqlens_q) || given(desc.cu_seqlens_k) || given(desc.kv_lengths);
  require(vary || p.queries == p.keys, Sentence::kAlignNeeded, why, p.queries, p.keys);
  require(!vary || !call.where.on_gpu(), Sentence::kAlignNeededThere, why);
  for (std::int64_t b = 0; vary && b < p.batch; ++b) {
    const Sequence s = p.sequence(b);
    require(s.queries == s.keys.end, Sentence::kAlignNeededFor, why, b, s.queries, s.keys.end);
  }
}

}  // namespace

void check_lengths(const Call& call) {
  if (call.where.on_gpu()) return;
  const Problem& p = call.problem;
  check_boundaries("cu_seqlens_q", p.cu_seqlens_q, "q", p.q.shape[1]);
  check_boundaries("cu_seqlens_k", p.cu_seqlens_k, "k", p.k.shape[1]);
  check_range("seqused_q", p.seqused_q, p.cu_seqlens_q, 0);
  check_range("seqused_k", p.seqused_k, p.cu_seqlens_k, 0);
  check_range("kv_lengths", p.kv_lengths, p.cu_seqlens_k, p.keys);
  check_range("kv_starts", p.kv_starts, p.cu_seqlens_k, p.keys);
  check_cache_rows(p);
  check_pages(p);
}

void check_broadcasts(const Desc& desc, const Call& call) {
  if (!given(desc.mask) && !given(desc.bias)) return;
  const Problem& p = call.problem;
  const bool packed_q = given(desc.cu_seqlens_q);
  const bool loose_k = given(desc.cu_seqlens_k) || given(desc.block_table);
  const Index4 sizes = pair_sizes(call, packed_q, loose_k);
  for (const Field& field : fields()) {
    if (field.rule != Rule::kBroadcast || !given(desc.*field.given)) continue;
    const Tensor& t = p.*field.tensor;
    require(covers(t, 0, sizes[0], false) && covers(t, 1, sizes[1], false) &&
                covers(t, 2, sizes[2], packed_q) && covers(t, 3, sizes[3], loose_k),
            Sentence::kBroadcast, field.name, Shape{t.shape}, Shape{sizes});
  }
}

void check_alignment(const Desc& desc, const Call& call) {
  if (desc.align != TESSERA_ALIGN_UNSET) return;
  const core::Band band{call.problem.left, call.problem.right};
  if (band.bounded()) return check_diagonal("a bounded band", desc, call);
  if (given(desc.alibi)) check_diagonal("alibi", desc, call);
}

}  // namespace tessera::api
