#include "plan/backward.hpp"

#include <algorithm>

#include "plan/parts.hpp"

namespace tessera::plan {
namespace {

using core::Gradients;
using core::Problem;

// What the CPU kernels do not do, each with the word for it; nullptr where they do all.
const char* missing_on_cpu(const Problem& p) {
  if (p.q.dtype == core::DType::kFloat64) return "float64";
  if (p.cache_batch_idx.present()) return "sequences that share rows of k and v (cache_batch_idx)";
  return nullptr;
}

// ---- Splits ----

// A head of keys is cut where there are few heads, by the shape alone: results do not depend on the
// threads. Each cut costs a float32 copy of dQ, and that the queries are packed once more, which is
// little beside 512 keys.
constexpr std::int64_t kTasks = 32;
constexpr std::int64_t kMostSplits = 16;
constexpr std::int64_t kLeastKeys = 512;

std::int64_t keys_of_split(const Problem& p, const Tiles& tiles) {
  // One of many packed sequences may hold nearly all keys.
  const std::int64_t heads =
      std::max<std::int64_t>(1, p.packed_keys() ? p.kv_heads : p.batch * p.kv_heads);
  const std::int64_t by_heads = std::min(kMostSplits, divide_up(kTasks, heads));
  const std::int64_t by_keys = std::max<std::int64_t>(1, p.keys / kLeastKeys);
  const std::int64_t keys = divide_up(p.keys, std::min(by_heads, by_keys));
  return std::max(tiles.block, round_up(keys, tiles.block));
}

// ---- Workers ----

double flops_of(const Problem& p) {
  return 2. * double(p.batch) * double(p.heads) * double(p.queries) * double(p.keys) *
         double(3 * p.dim + 2 * p.value_dim);
}

// Rows of dQ in memory that is shared, for each split.
std::int64_t shared_bytes(const Plan& plan, const Problem& p, const Tiles& tiles) {
  if (plan.splits == 1) return 0;
  const std::int64_t rows = p.q.shape[0] * p.heads * p.queries;
  return plan.splits * rows * round_up(p.dim, tiles.panel) * kFloat;
}

const char* why_float32(const Problem& p, const Gradients& g, const Device& device) {
  if (const char* why = why_not_bfloat16(p, device)) return why;
  return g.d_out.dtype != core::DType::kBfloat16 ? "pairs of bfloat16 would round dO" : nullptr;
}

Plan plan_cpu(const Problem& p, const Gradients& g, const Device& device) {
  const Tiles tiles = tiles_for(device.lanes);
  Plan plan;
  plan.backend = Backend::kCpu;
  plan.device = device;
  plan.tile_queries = 2 * tiles.strip;
  plan.tile_keys = tiles.block;
  plan.task_queries = std::max<std::int64_t>(1, p.queries);
  plan.split_keys = keys_of_split(p, tiles);
  plan.splits = std::max<std::int64_t>(1, divide_up(p.keys, plan.split_keys));
  plan.tasks = p.batch * p.kv_heads * plan.splits;
  plan.workers = useful_workers(plan, flops_of(p), kFlopsPerWorker);
  decide_arithmetic(plan, why_float32(p, g, device));
  plan.packing = Packing::kBlock;
  plan.why_packing = "every operand is read by rows and by columns";
  plan.worker_bytes = backward_layout(p, plan, bias_keys(g)).floats * kFloat;
  plan.shared_bytes = round_up(shared_bytes(plan, p, tiles), 64);
  return plan;
}

// The most keys that one step of a sum takes.
constexpr std::int64_t kKeyGroup = 32;

}  // namespace

BackwardLayout backward_layout(const Problem& p, const Plan& plan, std::int64_t bias_keys) {
  const Tiles tiles = tiles_for(plan.device.lanes);
  BackwardLayout at;
  at.dim = round_up(p.dim, tiles.panel);
  at.value_dim = round_up(p.value_dim, tiles.panel);
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at.floats;
    at.floats += round_up(floats, 16);
    return begin;
  };
  const std::int64_t span = 2 * tiles.strip, rows = round_up(p.queries, span);
  at.q = take(rows * at.dim);
  at.d_out = take(rows * at.value_dim);
  at.dq = take(rows * at.dim);
  at.q_columns = take(rows * at.dim);
  at.d_out_columns = take(rows * at.value_dim);
  at.lse = take(rows);
  at.delta = take(rows);
  at.k = take(tiles.block * at.dim);
  at.v = take(tiles.block * at.value_dim);
  const std::int64_t keys = std::min(plan.split_keys, round_up(p.keys, tiles.block));
  at.dk = take((keys + kKeyGroup) * at.dim);
  at.dv = take((keys + kKeyGroup) * at.value_dim);
  const std::int64_t pairs = tiles.block + tiles.key_tile;
  at.p = take(pairs * span);
  at.ds = take(pairs * span);
  at.s = take(pairs * tiles.strip);
  at.slope = take(pairs * tiles.strip);
  at.dp = take(pairs * tiles.strip);
  const bool biased = p.mask.present() || p.bias.present();
  at.modifiers = take(biased ? tiles.block * (tiles.strip + tiles.together) : 0);
  at.row = take(2 * std::max(at.dim, at.value_dim));
  at.bias_sums = take(bias_keys * span);
  return at;
}

Plan make_backward_plan(const Problem& p, const Gradients& g, Backend wanted,
                        const Device& device) {
  if (wanted == Backend::kReference) return plan_reference(p, device, "asked for");
  const char* missing = wanted == Backend::kStandard ? "standard attention" : missing_on_cpu(p);
  if (missing != nullptr && wanted == Backend::kAuto) return plan_reference(p, device, missing);
  if (missing != nullptr) refuse_missing("the backward pass of the CPU backend", missing);
  Plan plan = plan_cpu(p, g, device);
  plan.why_backend = wanted == Backend::kAuto ? "the fastest that can do the call" : "asked for";
  return plan;
}

}  // namespace tessera::plan
