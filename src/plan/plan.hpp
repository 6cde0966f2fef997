// What will run, decided once: a pure function of the problem and the device.
#pragma once
#include <cstdint>
#include <string>

#include "core/gradients.hpp"
#include "core/problem.hpp"
#include "plan/device.hpp"

namespace tessera::plan {

// Tile sizes of the CPU kernels. A strip of queries and a panel of value columns are two vectors,
// which with key_tile keys (or a few rows) fill the registers; a block of keys is what is scored
// between two updates of the maximum, and the strips of a task share it while it is near.
struct Tiles {
  std::int64_t strip, panel, key_tile, block;
  std::int64_t together;  // rows that are transposed at once
};

// Evidence: on Zen 4 blocks of 64, 96 and 128 keys, 1 to 3 strips a task and key tiles of 6, 8 and
// 12 are within noise of each other; 96 keys x 32 queries of S stay in an L1 cache of 32 KiB.
constexpr Tiles tiles_for(std::int64_t lanes) {
  return {.strip = 2 * lanes,
          .panel = 2 * lanes,
          .key_tile = lanes == 16 ? 8 : 6,
          .block = 96,
          .together = lanes >= 4 ? 4 : 1};
}

// Q^T and K in words of 32 bits: a word is what one step of a score multiplies.
constexpr std::int64_t steps_of(Arithmetic arithmetic, std::int64_t dim) {
  return arithmetic == Arithmetic::kFloat32 ? dim
         : arithmetic == Arithmetic::kPairs ? (dim + 1) / 2
                                            : (dim + 31) / 32 * 16;
}

// At most so many strips a task.
inline constexpr std::int64_t kMostStrips = 8;

// The values of tessera_backend.
enum class Backend : std::uint32_t {
  kAuto = 0,
  kCpu = 1,
  kReference = 2,
  kStandard = 3,
  kCuda = 4,      // planned by plan/gpu.hpp
  kEmulator = 5,  // the same
};

// How the CPU tiles read keys and values.
enum class Packing {
  kNone,   // as they lie
  kHead,   // copied to float32 panels once per head and worker
  kBlock,  // the same, block by block, where a head would not fit the budget
};

// The tasks of one sequence in the list of a call whose sequences differ in length: for each head
// `blocks` tasks, the longest first. The list lies in shared memory.
struct Stretch {
  std::int64_t sequence, blocks;
  std::int64_t first_task;
  double largest;  // work of its longest task
  double before;   // work of all tasks before it
};

// Which schedule of the CPU.
enum class Kernel {
  kTiled,   // strips of queries, one head at a time
  kDecode,  // all query heads of a key head, splits of the keys
};

// The decode kernel: keys between two updates of the maximum, rows of a task, keys of a split. They
// are the same for every call, so the splits of a row depend on nothing but its keys.
inline constexpr std::int64_t kDecodeBlock = 32, kDecodeRows = 16, kSplitKeys = 1024;
inline constexpr std::int64_t kRunKeys = 16;  // of a block: rows at equal distances

struct Plan {
  Backend backend = Backend::kReference;
  Device device;
  std::int64_t tile_queries = 1, tile_keys = 1;  // of one step of the online softmax
  std::int64_t task_queries = 1;                 // rows that one task computes
  std::int64_t tasks = 0, workers = 1;
  std::int64_t listed = 0;        // sequences whose tasks are listed; 0: all have equally many
  std::int64_t clearing = 0;      // tasks at the end that write the rows of no sequence
  std::int64_t longest_keys = 0;  // of any sequence
  Arithmetic arithmetic = Arithmetic::kFloat32;
  Packing packing = Packing::kNone;
  Kernel kernel = Kernel::kTiled;
  // A task of the decode kernel, and of the backward pass, takes so many keys of a head.
  std::int64_t split_keys = 0, splits = 1;
  std::int64_t worker_bytes = 0, shared_bytes = 0;  // of workspace
  std::string_view why_backend, why_packing, why_arithmetic, why_kernel;

  std::int64_t workspace_bytes() const { return workers * worker_bytes + shared_bytes; }

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Takes the decode kernel where it does the call and reads less; why_kernel says why, or why not.
bool plan_decode(Plan& plan, const core::Problem& problem);

// Refuses, with UNSUPPORTED, what the backend that was asked for cannot do.
Plan make_plan(const core::Problem& problem, Backend wanted, const Device& device);

// The same for the gradients of a problem.
Plan make_backward_plan(const core::Problem& problem, const core::Gradients& gradients,
                        Backend wanted, const Device& device);

// One JSON object.
std::string to_json(const Plan& plan, const core::Problem& problem);
std::string to_json(const Plan& plan, const core::Problem& problem,
                    const core::Gradients& gradients);
std::string to_json(const core::Problem& problem);

}  // namespace tessera::plan
