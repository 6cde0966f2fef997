#include <algorithm>

#include "plan/parts.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;

// What the tiled kernels do not do, each with the word for it; nullptr where they do all.
const char* missing_on_cpu(const Problem& p) {
  return p.q.dtype == DType::kFloat64 ? "float64" : nullptr;
}

// The same of standard attention, which is there for comparison.
const char* missing_in_standard(const Problem& p) {
  if (p.packed_queries() || p.packed_keys()) return "packed sequences (cu_seqlens)";
  if (p.paged()) return "pages (block_table)";
  if (p.dropout.p != 0) return "dropout";
  if (p.state_out.present()) return "starting from a state (state_out, state_lse)";
  return missing_on_cpu(p);
}

// ---- Lengths ----

// The longest sequence, and what all of them add up to.
struct Lengths {
  std::int64_t queries = 0, keys = 0;
  std::int64_t rows = 0;  // queries of all
  double pairs = 0;       // of a query and a key of one head
};

Lengths lengths_of(const Problem& p) {
  if (!p.varies())
    return {p.queries, p.keys, p.batch * p.queries,
            double(p.batch) * double(p.queries) * double(p.keys)};
  Lengths all;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const core::Sequence s = p.sequence(b);
    all.queries = std::max(all.queries, s.queries);
    all.keys = std::max(all.keys, s.keys.end);
    all.rows += s.queries;
    all.pairs += double(s.queries) * double(s.keys.size());
  }
  return all;
}

// ---- Arithmetic: which bfloat16 calls are multiplied as bfloat16 ----

// Below these sizes products do not decide how long a call takes, and the rounding of P, which they
// cost, averages over few sums.
constexpr std::int64_t kLeastDim = 16;

const char* why_float32(const Problem& p, const Lengths& lengths, const Plan& plan) {
  const Device& device = plan.device;
  if (const char* why = why_not_bfloat16(p, device)) return why;
  if (plan.backend == Backend::kStandard) return "standard attention is computed in float32";
  if (p.batch_invariant) return "float32 sums depend on the keys of a row alone";
  if (p.state_out.present()) return "a state to start from is float32";
  if (p.out.dtype == DType::kFloat32) return "out is float32, and weights of 16 bits are not";
  if (are_few(lengths.queries, device) || std::min(p.dim, p.value_dim) < kLeastDim)
    return "so few queries or dimensions that products of bfloat16 gain nothing";
  return nullptr;
}

// ---- Packing: when K and V are copied to panels ----

// Copies of a head larger than this would push each other out of a cache of 32 MiB shared by two or
// more cores; blocks are then packed one at a time, which costs a copy per task.
constexpr std::int64_t kPackedHead = std::int64_t{16} << 20;
// Rows that lie 1 KiB or more apart share few sets of an L1 cache of 32 KiB: a copy pays for itself
// once four strips read it (measured on Zen 4 at [B, L, H, D]: 80 -> 84 % of the peak).
constexpr std::int64_t kFarApart = 256;
constexpr std::int64_t kReaders = 4;

const char* why_pack(const Plan& plan, const Problem& p, const Lengths& lengths,
                     const Tiles& tiles) {
  if (plan.arithmetic == Arithmetic::kPairs) return "the values of two keys are interleaved";
  if (plan.arithmetic == Arithmetic::kTiles) return "values are transposed";
  if (p.paged() && p.k.shape[1] % tiles.block != 0) return "blocks of keys are gathered from pages";
  if (p.q.dtype != DType::kFloat32) return "16-bit keys and values are widened to float32";
  if (p.k.stride[3] != 1 || p.v.stride[3] != 1) return "the last dimension of k or v has a stride";
  if (p.value_dim % tiles.panel != 0) return "the value dimension is no whole number of panels";
  const std::int64_t readers = p.group() * divide_up(lengths.queries, tiles.strip);
  if (readers >= kReaders &&
      std::max(std::abs(p.k.stride[1]), std::abs(p.v.stride[1])) >= kFarApart)
    return "rows of k or v lie 1 KiB or more apart, and are read often";
  return nullptr;
}

std::int64_t packed_block_floats(const Plan& plan, const Problem& p, const Tiles& tiles) {
  const std::int64_t in_word = plan.arithmetic == Arithmetic::kFloat32 ? 1 : 2;
  return tiles.block *
         (steps_of(plan.arithmetic, p.dim) + round_up(p.value_dim, tiles.panel) / in_word);
}

void decide_packing(Plan& plan, const Problem& p, const Lengths& lengths, const Tiles& tiles) {
  const char* why = why_pack(plan, p, lengths, tiles);
  plan.why_packing = why != nullptr ? why : "k and v are read as they lie";
  if (why == nullptr) return;
  const std::int64_t blocks = divide_up(lengths.keys, tiles.block);
  const std::int64_t head = blocks * packed_block_floats(plan, p, tiles) * kFloat;
  plan.packing = head <= kPackedHead ? Packing::kHead : Packing::kBlock;
}

// ---- Workspace: the same sum as cpu::Scratch, in its order ----

std::int64_t scratch_bytes(const Plan& plan, const Problem& p, const Tiles& tiles) {
  const std::int64_t value_dim = round_up(p.value_dim, tiles.panel);
  const std::int64_t steps = steps_of(plan.arithmetic, p.dim);
  const std::int64_t strips = plan.task_queries * (steps + value_dim);
  const std::int64_t scores = (tiles.block + tiles.key_tile) * tiles.strip;
  const std::int64_t row = round_up(std::max(tiles.together * steps, 2 * value_dim), tiles.strip);
  const bool biased = p.mask.present() || p.bias.present();
  const std::int64_t bias = biased ? tiles.block * (tiles.strip + tiles.together) : 0;
  std::int64_t packed = 0;
  if (plan.packing != Packing::kNone) {
    const std::int64_t blocks = divide_up(plan.longest_keys, tiles.block);
    const std::int64_t slots = plan.packing == Packing::kHead ? blocks : 1;
    packed = slots * (packed_block_floats(plan, p, tiles) + 2);  // and who owns each
  }
  return round_up((strips + scores + row + bias + packed) * kFloat, 64);
}

// A strip of standard attention keeps its scores and two numbers a row.
std::int64_t stored_bytes(const Problem& p, const Tiles& tiles) {
  const std::int64_t strips = p.batch * p.heads * divide_up(p.queries, tiles.strip);
  const std::int64_t keys = round_up(p.keys, tiles.block) + tiles.key_tile + 2;
  const double bytes = double(strips) * double(keys) * double(tiles.strip * kFloat);
  if (bytes > 0x1p62) return std::int64_t{7} << 60;  // which nobody can allocate
  return round_up(strips * keys * tiles.strip * kFloat, 64);
}

std::int64_t list_bytes(const Plan& plan) {
  return round_up(plan.listed * std::int64_t(sizeof(Stretch)), 64);
}

// ---- Tasks ----

// A task streams all keys of its head past its strips. Two strips leave most tasks to share out; a
// head that does not fit a cache of a core comes from far away, and more strips then share each
// block (Zen 4, D 128, 8192 keys, others at work: 74 % of the peak with 2 strips, 81 with 4, 82
// with 8; quiet machines and shorter heads show no difference).
constexpr std::int64_t kNearHead = std::int64_t{2} << 20;
constexpr std::int64_t kTasksPerThread = 4;

// Tasks of `rows` queries each.
std::int64_t tasks_of(const Problem& p, std::int64_t rows) {
  if (!p.packed_queries()) return p.batch * p.heads * divide_up(p.queries, rows);
  std::int64_t blocks = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) blocks += divide_up(p.sequence(b).queries, rows);
  return blocks * p.heads;
}

// As many tasks as the work makes if each is like the longest: short ones balance nothing.
double long_tasks(const Problem& p, const Lengths& lengths, std::int64_t rows) {
  if (!p.varies()) return double(tasks_of(p, rows));
  const double longest = double(std::min(rows, lengths.queries)) * double(lengths.keys);
  return double(p.heads) * lengths.pairs / std::max(longest, 1.);
}

std::int64_t strips_of_task(const Problem& p, const Lengths& lengths, const Device& device,
                            const Tiles& tiles) {
  const std::int64_t head = lengths.keys * (p.dim + p.value_dim) * kFloat;
  const auto enough = double(kTasksPerThread * device.threads);
  std::int64_t strips = head > kNearHead ? kMostStrips : 2;
  while (strips > 2 && long_tasks(p, lengths, tiles.strip * strips) < enough) strips /= 2;
  return strips;
}

// Decides task_queries first.
void decide_tasks(Plan& plan, const Problem& p, const Lengths& lengths) {
  plan.tasks = tasks_of(p, plan.task_queries);
  const bool alike = !p.varies() || (p.batch == 1 && !p.packed_queries());
  if (plan.backend == Backend::kCpu && plan.tasks > 0 && !alike) plan.listed = p.batch;
  // A head clears its rows, which costs little.
  if (p.packed_queries() && lengths.rows < p.queries) plan.clearing = p.heads;
  plan.tasks += plan.clearing;
}

// ---- Workers ----

double flops_of(const Problem& p, const Lengths& lengths) {
  return 2. * double(p.heads) * lengths.pairs * double(p.dim + p.value_dim);
}

Plan plan_cpu(const Problem& p, Backend backend, const Device& device) {
  const Tiles tiles = tiles_for(device.lanes);
  const Lengths lengths = lengths_of(p);
  const bool standard = backend == Backend::kStandard;
  Plan plan;
  plan.backend = backend;
  plan.device = device;
  if (backend == Backend::kCpu && plan_decode(plan, p)) return plan;
  plan.tile_queries = tiles.strip;
  plan.tile_keys = tiles.block;
  plan.longest_keys = standard ? p.keys : lengths.keys;
  plan.task_queries = tiles.strip * (standard ? 1 : strips_of_task(p, lengths, device, tiles));
  decide_tasks(plan, p, lengths);
  plan.workers = useful_workers(plan, flops_of(p, lengths), kFlopsPerWorker);
  decide_arithmetic(plan, why_float32(p, lengths, plan));
  decide_packing(plan, p, lengths, tiles);
  plan.worker_bytes = scratch_bytes(plan, p, tiles);
  plan.shared_bytes = standard ? stored_bytes(p, tiles) : list_bytes(plan);
  return plan;
}

}  // namespace

Plan make_plan(const Problem& p, Backend wanted, const Device& device) {
  if (wanted == Backend::kReference) return plan_reference(p, device, "asked for");
  const bool standard = wanted == Backend::kStandard;
  const char* missing = standard ? missing_in_standard(p) : missing_on_cpu(p);
  if (missing != nullptr && wanted == Backend::kAuto) return plan_reference(p, device, missing);
  if (missing != nullptr)
    refuse_missing(standard ? "standard attention" : "the CPU backend", missing);
  Plan plan = plan_cpu(p, wanted == Backend::kAuto ? Backend::kCpu : wanted, device);
  plan.why_backend = wanted == Backend::kAuto ? "the fastest that can do the call" : "asked for";
  return plan;
}

}  // namespace tessera::plan
