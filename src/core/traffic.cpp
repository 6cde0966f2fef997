#include "core/traffic.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace tessera::core {
namespace {

constexpr std::int64_t kSum = 4;  // bytes of a float32: accumulators, statistics, scores in a tile

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Elements of the four inputs and outputs of one head.
struct Elements {
  std::int64_t q, k, v, out, matrix;

  explicit Elements(const TrafficShape& s)
      : q(s.queries * s.dim),
        k(s.keys * s.dim),
        v(s.keys * s.value_dim),
        out(s.queries * s.value_dim),
        matrix(s.queries * s.keys) {}
};

void require_at_least_one(const char* name, std::int64_t value) {
  if (value >= 1) return;
  fail(Status::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                     "; the traffic model takes sizes of at least 1");
}

void check(const TrafficShape& s, std::int64_t sram_bytes) {
  require_at_least_one("the number of heads", s.heads);
  require_at_least_one("the number of queries", s.queries);
  require_at_least_one("the number of keys", s.keys);
  require_at_least_one("the head dimension", s.dim);
  require_at_least_one("the value dimension", s.value_dim);
  require_at_least_one("the size of an element", s.element_bytes);
  require_at_least_one("the size of fast memory", sram_bytes);
  // No count below exceeds 16 N^2 (D + Dv) heads elements: with tiles of one row, backward.
  const double most = 16. * double(s.heads) * double(s.queries) * double(s.keys) *
                      (double(s.dim) + double(s.value_dim)) * double(s.element_bytes);
  if (most < 0x1p62 && sram_bytes < std::int64_t{1} << 62) return;
  fail(Status::kInvalidArgument,
       "the traffic of this shape does not fit in 63 bits; take fewer heads, queries or keys");
}

// Five matrix products of the backward pass in the tiled schedule, which computes S again, and four
// in the standard one, which kept P: P^T dO and dO V^T have dimension Dv, the others D.
std::int64_t flops(const TrafficShape& s, bool recompute) {
  const std::int64_t pair = s.pass == Pass::kForward
                                ? s.dim + s.value_dim
                                : (recompute ? 3 : 2) * s.dim + 2 * s.value_dim;
  return s.heads * 2 * s.queries * s.keys * pair;
}

// S = Q K^T; P = softmax(S); O = P V: three operators, each with operands in slow memory.
std::int64_t standard_forward(const Elements& n) {
  const std::int64_t scores = n.q + n.k + n.matrix;
  const std::int64_t softmax = n.matrix + n.matrix;
  const std::int64_t output = n.matrix + n.v + n.out;
  return scores + softmax + output;
}

// Dao et al. 2022, Algorithm 3: dV = P^T dO; dP = dO V^T; dS from P and dP; dQ = dS K; dK = dS^T Q.
std::int64_t standard_backward(const Elements& n) {
  const std::int64_t d_v = n.matrix + n.out + n.v;
  const std::int64_t d_p = n.out + n.v + n.matrix;
  const std::int64_t d_s = 3 * n.matrix;
  const std::int64_t d_q = n.matrix + n.k + n.q;
  const std::int64_t d_k = n.matrix + n.q + n.k;
  return d_v + d_p + d_s + d_q + d_k;
}

Schedule standard(const TrafficShape& s) {
  const Elements n(s);
  const bool forward = s.pass == Pass::kForward;
  const std::int64_t elements = forward ? standard_forward(n) : standard_backward(n);
  // Forward: P takes the place of S. Backward: P is kept since the forward pass, dS takes dP's.
  const std::int64_t matrices = forward ? 1 : 2;
  return {flops(s, false), s.heads * elements * s.element_bytes,
          s.heads * matrices * n.matrix * s.element_bytes};
}

// For each tile of queries: its rows of q in, of out and lse out, and `passes` times in all the
// whole of k and v.
std::int64_t tiled_forward(const TrafficShape& s, std::int64_t passes) {
  const Elements n(s);
  return (n.q + n.out + passes * (n.k + n.v)) * s.element_bytes + s.queries * kSum;
}

// For each tile of keys, all of q, dO, lse and delta = rowsum(dO * O) in, and dQ in and out in
// float32: the first pass only writes it, the last leaves it rounded. Before that, delta is
// computed from out and dO; k and v come in and dK and dV go out once.
std::int64_t tiled_backward(const TrafficShape& s, std::int64_t passes) {
  const Elements n(s);
  const std::int64_t delta = 2 * n.out * s.element_bytes + s.queries * kSum;
  const std::int64_t keys = 2 * (n.k + n.v) * s.element_bytes;
  const std::int64_t rows = (n.q + n.out) * s.element_bytes + 2 * s.queries * kSum;
  const std::int64_t d_q = (passes - 1) * 2 * n.q * kSum + n.q * s.element_bytes;
  return delta + keys + passes * rows + d_q;
}

// Forward: lse, for the backward pass. Backward: delta, and dQ in float32 if it is stored at all
// (with one tile of keys it never leaves fast memory before it is done).
std::int64_t tiled_allocated(const TrafficShape& s, std::int64_t passes) {
  const std::int64_t statistics = s.queries * kSum;
  const bool stored = s.pass == Pass::kBackward && passes > 1;
  return s.heads * (statistics + (stored ? s.queries * s.dim * kSum : 0));
}

Schedule tiled(const TrafficShape& s, std::int64_t passes) {
  const std::int64_t bytes =
      s.pass == Pass::kForward ? tiled_forward(s, passes) : tiled_backward(s, passes);
  return {flops(s, true), s.heads * bytes, tiled_allocated(s, passes)};
}

std::int64_t passes_of(const TrafficShape& s, TileSize tile) {
  return s.pass == Pass::kForward ? ceil_div(s.queries, tile.queries) : ceil_div(s.keys, tile.keys);
}

// What the inner loop reads again: k and v; backward q, dO, dQ, lse and delta.
std::int64_t inner_bytes(const TrafficShape& s) {
  const Elements n(s);
  if (s.pass == Pass::kForward) return (n.k + n.v) * s.element_bytes;
  return (n.q + n.out) * s.element_bytes + (n.q + 2 * s.queries) * kSum;
}

// The tile whose outer side has `outer` rows.
TileSize tile_of(const TrafficShape& s, std::int64_t outer) {
  const std::int64_t inner = std::min(outer, std::max(s.dim, s.value_dim));
  if (s.pass == Pass::kForward) return {outer, std::min(inner, s.keys)};
  return {std::min(inner, s.queries), outer};
}

double law_bytes(const TrafficShape& s, std::int64_t sram_bytes) {
  const double d = (double(s.dim) + double(s.value_dim)) / 2;
  const double m = double(sram_bytes) / double(s.element_bytes);
  return double(s.heads) * double(s.queries) * double(s.keys) * d * d / m * double(s.element_bytes);
}

}  // namespace

TileParts tile_parts(const TrafficShape& s, TileSize tile) {
  const std::int64_t rows = tile.queries, columns = tile.keys;
  const std::int64_t statistics = 2 * rows * kSum, scores = rows * columns * kSum;
  if (s.pass == Pass::kForward)
    return {.operands = (rows * s.dim + columns * (s.dim + s.value_dim)) * s.element_bytes,
            .sums = rows * s.value_dim * kSum,
            .statistics = statistics,
            .scores = scores};
  return {.operands = (rows + columns) * (s.dim + s.value_dim) * s.element_bytes,
          .sums = (rows * s.dim + columns * (s.dim + s.value_dim)) * kSum,
          .statistics = statistics,
          .scores = 2 * scores};
}

TileSize choose_tiles(const TrafficShape& s, std::int64_t sram_bytes) {
  const std::int64_t most = s.pass == Pass::kForward ? s.queries : s.keys;
  std::int64_t fits = 0, too_large = most + 1;
  while (too_large - fits > 1) {
    const std::int64_t outer = fits + (too_large - fits) / 2;
    (tile_bytes(s, tile_of(s, outer)) <= sram_bytes ? fits : too_large) = outer;
  }
  return fits == 0 ? TileSize{} : tile_of(s, fits);
}

Traffic model_traffic(const TrafficShape& s, std::int64_t sram_bytes,
                      std::optional<TileSize> tile) {
  check(s, sram_bytes);
  Traffic t;
  t.tile = tile ? *tile : choose_tiles(s, sram_bytes);
  t.standard = standard(s);
  t.resident_bytes = inner_bytes(s);
  t.law_bytes = law_bytes(s, sram_bytes);
  if (t.tile.queries < 1 || t.tile.keys < 1) return t;
  t.tile = {std::min(t.tile.queries, s.queries), std::min(t.tile.keys, s.keys)};
  t.tile_parts = tile_parts(s, t.tile);
  t.tile_bytes = t.tile_parts.total();
  t.fits = t.tile_bytes <= sram_bytes;
  t.passes = passes_of(s, t.tile);
  t.tiled = tiled(s, t.passes);
  t.resident = tiled(s, 1);
  t.resident.allocated = t.tiled.allocated;
  return t;
}

}  // namespace tessera::core
