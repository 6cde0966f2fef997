// When few queries are computed by the decode kernel, and with what.
#include <algorithm>

#include "plan/parts.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;

// Sums over lanes of at most so many products keep the error of a score below that of the tiles.
constexpr std::int64_t kLongestChain = 32;

// What speaks against the decode kernel; nullptr if nothing does. Neither batch nor heads do, so
// that a row has the same bits alone and in company.
const char* why_tiled(const Problem& p, const Device& device) {
  if (p.batch_invariant) return "batch-invariant calls have one kernel for any number of queries";
  if (!are_few(p.queries, device)) return "the queries of a head fill strips";
  if (p.mask.present() || p.bias.present() || p.alibi.present() || p.softcap != 0)
    return "few queries, but the decode kernel has no mask, bias, alibi or softcap";
  if (p.packed_queries() || p.packed_keys() || p.dropout.p != 0 || p.state_out.present())
    return "few queries, but the decode kernel has no packed sequences, dropout or states";
  if (p.dim > kLongestChain * device.lanes)
    return "few queries, but the head dimension is too long for the sums of the decode kernel";
  return nullptr;
}

// What registers cannot read as it lies.
const char* why_copied(const Problem& p, const Device& device) {
  if (p.paged() && p.k.shape[1] % kRunKeys != 0) return "keys are gathered from small pages";
  if (p.k.stride[3] != 1 || p.v.stride[3] != 1) return "the last dimension of k or v has a stride";
  if (p.dim % device.lanes != 0 || p.value_dim % device.lanes != 0)
    return "a head dimension is no whole number of vectors";
  if (p.q.dtype == DType::kFloat16 && device.lanes < 8) return "the target cannot read float16";
  return nullptr;
}

// Why scores are not sums of products of pairs; nullptr if nothing speaks against it. The products
// of values are float32 in any case: weights of 16 bits are more than a single row may lose.
const char* why_widened(const Problem& p, const Device& device) {
  if (const char* why = why_not_bfloat16(p, device)) return why;
  if (device.bfloat16 != Arithmetic::kPairs) return "few queries do not fill tiles of bfloat16";
  if (p.dim % (2 * device.lanes) != 0)
    return "the head dimension is no whole number of vectors of pairs";
  return nullptr;
}

// The same sums as cpu::DecodeScratch and cpu::States, in their order.
std::int64_t scratch_bytes(const Problem& p, const Device& device) {
  const std::int64_t dim = round_up(p.dim, device.lanes);
  const std::int64_t value_dim = round_up(p.value_dim, device.lanes);
  const std::int64_t rows = kDecodeRows * dim;
  const std::int64_t copies = kDecodeBlock * (dim + value_dim);
  return round_up((rows + 2 * value_dim + copies) * kFloat, 64);
}

std::int64_t state_bytes(const Plan& plan, const Problem& p) {
  const std::int64_t row = round_up(p.value_dim, plan.device.lanes) + plan.device.lanes;
  return round_up(p.batch * p.heads * p.queries * plan.splits * row * kFloat, 64);
}

// Waking a second thread takes up to 50 us, in which one core reads about 1 MB.
constexpr double kBytesPerWorker = 1e6;

double bytes_of(const Problem& p) {
  return double(p.batch) * double(p.kv_heads) * double(p.keys) * double(p.dim + p.value_dim) *
         double(core::size_of(p.q.dtype));
}

}  // namespace

bool plan_decode(Plan& plan, const Problem& p) {
  const char* tiled = why_tiled(p, plan.device);
  plan.why_kernel = tiled != nullptr ? tiled : "few queries: keys are read once for all heads";
  if (tiled != nullptr) return false;
  const char* copied = why_copied(p, plan.device);
  plan.kernel = Kernel::kDecode;
  const char* widened = why_widened(p, plan.device);
  plan.arithmetic = widened != nullptr ? Arithmetic::kFloat32 : Arithmetic::kPairs;
  plan.why_arithmetic = widened != nullptr ? widened : "scores are sums of pairs of bfloat16";
  plan.split_keys = kSplitKeys;
  plan.splits = std::max<std::int64_t>(1, divide_up(p.keys, kSplitKeys));
  plan.tile_queries = plan.task_queries = std::min(kDecodeRows, p.group() * p.queries);
  plan.tile_keys = kDecodeBlock;
  plan.tasks = p.batch * p.kv_heads * divide_up(p.group() * p.queries, kDecodeRows) * plan.splits;
  plan.packing = copied != nullptr ? Packing::kBlock : Packing::kNone;
  plan.why_packing = copied != nullptr ? copied : "k and v are read as they lie";
  plan.workers = useful_workers(plan, bytes_of(p), kBytesPerWorker);
  plan.worker_bytes = scratch_bytes(p, plan.device);
  plan.shared_bytes = state_bytes(plan, p);
  return true;
}

}  // namespace tessera::plan
