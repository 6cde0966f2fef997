#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "plan/plan.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;

constexpr std::int64_t kFloat = 4;  // bytes

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

// What the CPU kernels do not do yet, each with the word for it; nullptr where they do all.
const char* missing_on_cpu(const Problem& p) {
  if (p.q.dtype == DType::kFloat64) return "float64";
  if (p.packed_queries() || p.packed_keys()) return "packed sequences (cu_seqlens)";
  if (p.seqused_q.present() || p.seqused_k.present()) return "seqused lengths";
  if (p.paged()) return "pages (block_table)";
  if (p.dropout.p != 0) return "dropout";
  if (p.state_out.present()) return "starting from a state (state_out, state_lse)";
  return nullptr;
}

// ---- Arithmetic: which bfloat16 calls are multiplied as bfloat16 ----

// A score may leave the range of float32, or become subnormal, before the scale brings it back.
constexpr float kSmallScale = 0x1p-20f, kLargeScale = 0x1p20f;

const char* why_float32(const Problem& p, Backend backend, const Device& device) {
  const float scale = std::abs(p.scale);
  if (p.q.dtype != DType::kBfloat16) return "q, k and v are not bfloat16";
  if (device.bfloat16 == Arithmetic::kFloat32) return "the target multiplies float32 alone";
  if (backend == Backend::kStandard) return "standard attention is computed in float32";
  // Their kernels know float32 weights, O by rows, and keys at k_begin of a batch entry.
  if (p.packed_queries() || p.packed_keys() || p.paged() || p.dropout.p != 0 ||
      p.state_out.present())
    return "packed sequences, pages, dropout and states are computed in float32";
  if (!(scale >= kSmallScale && scale <= kLargeScale))
    return "with this scale products of bfloat16 could leave the range of float32";
  return nullptr;
}

void decide_arithmetic(Plan& plan, const Problem& p) {
  const char* why = why_float32(p, plan.backend, plan.device);
  plan.why_arithmetic = why != nullptr ? why : "q, k and v are bfloat16";
  plan.arithmetic = why != nullptr ? Arithmetic::kFloat32 : plan.device.bfloat16;
}

// ---- Packing: when K and V are copied to panels ----

// Copies of a head larger than this would push each other out of a cache of 32 MiB shared by two or
// more cores; blocks are then packed one at a time, which costs a copy per task.
constexpr std::int64_t kPackedHead = std::int64_t{16} << 20;
// Rows that lie 1 KiB or more apart share few sets of an L1 cache of 32 KiB: a copy pays for itself
// once four strips read it (measured on Zen 4 at [B, L, H, D]: 80 -> 84 % of the peak).
constexpr std::int64_t kFarApart = 256;
constexpr std::int64_t kReaders = 4;

const char* why_pack(const Plan& plan, const Problem& p, const Tiles& tiles) {
  if (plan.arithmetic == Arithmetic::kPairs) return "the values of two keys are interleaved";
  if (plan.arithmetic == Arithmetic::kTiles) return "values are transposed";
  if (p.q.dtype != DType::kFloat32) return "16-bit keys and values are widened to float32";
  if (p.k.stride[3] != 1 || p.v.stride[3] != 1) return "the last dimension of k or v has a stride";
  if (p.value_dim % tiles.panel != 0) return "the value dimension is no whole number of panels";
  const std::int64_t readers = p.group() * divide_up(p.queries, tiles.strip);
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

void decide_packing(Plan& plan, const Problem& p, const Tiles& tiles) {
  const char* why = why_pack(plan, p, tiles);
  plan.why_packing = why != nullptr ? why : "k and v are read as they lie";
  if (why == nullptr) return;
  const std::int64_t head =
      divide_up(p.keys, tiles.block) * packed_block_floats(plan, p, tiles) * kFloat;
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
    const std::int64_t slots = plan.packing == Packing::kHead ? divide_up(p.keys, tiles.block) : 1;
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

// ---- Tasks ----

// A task streams all keys of its head past its strips. Two strips leave most tasks to share out; a
// head that does not fit a cache of a core comes from far away, and more strips then share each
// block (Zen 4, D 128, 8192 keys, others at work: 74 % of the peak with 2 strips, 81 with 4, 82
// with 8; quiet machines and shorter heads show no difference).
constexpr std::int64_t kNearHead = std::int64_t{2} << 20;
constexpr std::int64_t kTasksPerThread = 4;

std::int64_t strips_of_task(const Problem& p, Backend backend, const Device& device,
                            const Tiles& tiles) {
  if (backend == Backend::kStandard) return 1;
  const std::int64_t head = p.keys * (p.dim + p.value_dim) * kFloat;
  std::int64_t strips = head > kNearHead ? kMostStrips : 2;
  const auto tasks = [&] { return p.batch * p.heads * divide_up(p.queries, tiles.strip * strips); };
  while (strips > 2 && tasks() < kTasksPerThread * device.threads) strips /= 2;
  return strips;
}

// ---- Workers ----

// Below this many floating-point operations a second thread costs more than it brings: waking it
// takes up to 50 us, in which one core does about 4 MFLOP.
constexpr double kFlopsPerWorker = 4e6;

std::int64_t useful_workers(const Plan& plan, const Problem& p) {
  const double flops = 2. * double(p.batch) * double(p.heads) * double(p.queries) * double(p.keys) *
                       double(p.dim + p.value_dim);
  const auto by_work = std::int64_t(std::min(flops / kFlopsPerWorker, 1e6)) + 1;
  return std::max<std::int64_t>(1, std::min({plan.device.threads, plan.tasks, by_work}));
}

Plan plan_cpu(const Problem& p, Backend backend, const Device& device) {
  const Tiles tiles = tiles_for(device.lanes);
  Plan plan;
  plan.backend = backend;
  plan.device = device;
  plan.tile_queries = tiles.strip;
  plan.tile_keys = tiles.block;
  plan.task_queries = tiles.strip * strips_of_task(p, backend, device, tiles);
  plan.tasks = p.batch * p.heads * divide_up(p.queries, plan.task_queries);
  plan.workers = useful_workers(plan, p);
  decide_arithmetic(plan, p);
  decide_packing(plan, p, tiles);
  plan.worker_bytes = scratch_bytes(plan, p, tiles);
  if (backend == Backend::kStandard) plan.shared_bytes = stored_bytes(p, tiles);
  return plan;
}

Plan plan_reference(const Problem& p, const Device& device, const char* why) {
  Plan plan;
  plan.backend = Backend::kReference;
  plan.device = device;
  plan.tile_keys = p.keys;
  plan.tasks = p.batch * p.heads * p.queries;
  plan.why_backend = why;
  plan.why_packing = "k and v are read as they lie";
  plan.why_arithmetic = "the reference computes in double precision";
  return plan;
}

}  // namespace

Plan make_plan(const Problem& p, Backend wanted, const Device& device) {
  if (wanted == Backend::kReference) return plan_reference(p, device, "asked for");
  const char* missing = missing_on_cpu(p);
  if (missing != nullptr && wanted == Backend::kAuto) return plan_reference(p, device, missing);
  if (missing != nullptr)
    core::fail(core::Status::kUnsupported,
               std::string("the CPU backend does not do ") + missing +
                   " yet; use TESSERA_BACKEND_AUTO or TESSERA_BACKEND_REFERENCE, which does");
  Plan plan = plan_cpu(p, wanted == Backend::kAuto ? Backend::kCpu : wanted, device);
  plan.why_backend = wanted == Backend::kAuto ? "the fastest that can do the call" : "asked for";
  return plan;
}

}  // namespace tessera::plan
