#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/plan.hpp"
#include "unit/plan/problems.hpp"

namespace tessera::plan {
namespace {

using core::DType;
using core::Problem;
using test::present;
using test::problem_of;
using test::Shape;

constexpr Device kWide{.target = "avx512", .lanes = 16, .threads = 2};
constexpr Shape kUsual{.batch = 1,
                       .queries = 2048,
                       .keys = 2048,
                       .heads = 8,
                       .kv_heads = 8,
                       .dim = 64,
                       .value_dim = 64};

// ---- Golden plans for devices that tests invent ----

struct Golden {
  std::int64_t lanes, threads;
  std::int64_t tile_queries, task_queries, tasks, workers, worker_bytes;
};

// Bytes of a worker: Q^T and O of two strips, S of a block and a key tile, one row:
// 4 (2 (D + Dv) strip + (96 + key_tile) strip + max(together D, 2 Dv)), in whole lines of 64.
constexpr Golden kGolden[] = {
    {1, 1, 2, 4, 4096, 1, 3392},     {1, 2, 2, 4, 4096, 2, 3392},
    {1, 64, 2, 4, 4096, 64, 3392},   {4, 1, 8, 16, 1024, 1, 12480},
    {4, 2, 8, 16, 1024, 2, 12480},   {4, 64, 8, 16, 1024, 64, 12480},
    {8, 1, 16, 32, 512, 1, 23936},   {8, 2, 16, 32, 512, 2, 23936},
    {8, 64, 16, 32, 512, 64, 23936}, {16, 1, 32, 64, 256, 1, 47104},
    {16, 2, 32, 64, 256, 2, 47104},  {16, 64, 32, 64, 256, 64, 47104},
};

TEST(Planner, GoldenPlansOfTheUsualCase) {
  for (const Golden& g : kGolden) {
    const Device device{"invented", g.lanes, g.threads};
    const Plan want{.backend = Backend::kCpu,
                    .device = device,
                    .tile_queries = g.tile_queries,
                    .tile_keys = 96,
                    .task_queries = g.task_queries,
                    .tasks = g.tasks,
                    .workers = g.workers,
                    .longest_keys = 2048,
                    .packing = Packing::kNone,
                    .worker_bytes = g.worker_bytes,
                    .shared_bytes = 0,
                    .why_backend = "asked for",
                    .why_packing = "k and v are read as they lie",
                    .why_arithmetic = "q, k and v are not bfloat16",
                    .why_kernel = "the queries of a head fill strips"};
    const Plan got = make_plan(problem_of(kUsual), Backend::kCpu, device);
    EXPECT_EQ(got, want) << g.lanes << " lanes, " << g.threads
                         << " threads: " << to_json(got, problem_of(kUsual));
    EXPECT_EQ(got.workspace_bytes(), g.workers * g.worker_bytes);
  }
}

TEST(Planner, TilesFitTheRegisters) {
  for (const std::int64_t lanes : {1, 4, 8, 16}) {
    const Tiles tiles = tiles_for(lanes);
    EXPECT_EQ(tiles.strip, 2 * lanes);
    EXPECT_EQ(tiles.panel, 2 * lanes);
    EXPECT_EQ(tiles.together, lanes == 1 ? 1 : 4);
    // Two sums for each key, the two vectors of queries and the key itself.
    EXPECT_LE(2 * tiles.key_tile + 3, lanes == 16 ? 32 : 16);
  }
}

// ---- Backends ----

TEST(Planner, AutoTakesTheCpuAndSaysWhy) {
  const Plan plan = make_plan(problem_of(kUsual), Backend::kAuto, kWide);
  EXPECT_EQ(plan.backend, Backend::kCpu);
  EXPECT_EQ(plan.why_backend, "the fastest that can do the call");
  Plan asked = make_plan(problem_of(kUsual), Backend::kCpu, kWide);
  EXPECT_EQ(asked.why_backend, "asked for");
  asked.why_backend = plan.why_backend;
  EXPECT_EQ(asked, plan) << "the reason is all that differs";
}

TEST(Planner, TheReferenceTakesARowAtATime) {
  const Plan plan = make_plan(problem_of(kUsual), Backend::kReference, kWide);
  const Plan want{.backend = Backend::kReference,
                  .device = kWide,
                  .tile_queries = 1,
                  .tile_keys = 2048,
                  .task_queries = 1,
                  .tasks = 8 * 2048,
                  .workers = 1,
                  .packing = Packing::kNone,
                  .worker_bytes = 0,
                  .shared_bytes = 0,
                  .why_backend = "asked for",
                  .why_packing = "k and v are read as they lie",
                  .why_arithmetic = "the reference computes in double precision",
                  .why_kernel = {}};
  EXPECT_EQ(plan, want);
  EXPECT_EQ(plan.workspace_bytes(), 0);
}

struct Missing {
  const char* what;
  void (*ask)(Problem& p);
};

constexpr const char* kState = "starting from a state (state_out, state_lse)";
constexpr Missing kMissing[] = {
    {"float64", [](Problem& p) { p.q.dtype = p.k.dtype = p.v.dtype = DType::kFloat64; }},
};
constexpr const char* kPacked = "packed sequences (cu_seqlens)";
constexpr Missing kMissingInStandard[] = {
    {kPacked, [](Problem& p) { p.cu_seqlens_q = p.cu_seqlens_k = present(); }},
    {kPacked, [](Problem& p) { p.cu_seqlens_q = present(); }},
    {kPacked, [](Problem& p) { p.cu_seqlens_k = present(); }},
    {"pages (block_table)", [](Problem& p) { p.block_table = present(); }},
    {"dropout", [](Problem& p) { p.dropout.p = 0.1f; }},
    {kState, [](Problem& p) { p.state_out = p.state_lse = present(); }},
};

void expect_refused(const Missing& row, Backend backend, const std::string& who) {
  Problem p = problem_of(kUsual);
  row.ask(p);
  try {
    make_plan(p, backend, kWide);
    ADD_FAILURE() << row.what << " was planned";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.status(), core::Status::kUnsupported);
    EXPECT_EQ(std::string(e.what()), who + " does not do " + row.what +
                                         "; use TESSERA_BACKEND_AUTO, which takes a backend that "
                                         "does");
  }
}

TEST(Planner, WhatIsMissingIsRefusedWithItsSentence) {
  for (const Missing& row : kMissing) {
    expect_refused(row, Backend::kCpu, "the CPU backend");
    expect_refused(row, Backend::kStandard, "standard attention");
  }
  for (const Missing& row : kMissingInStandard)
    expect_refused(row, Backend::kStandard, "standard attention");
}

TEST(Planner, AutoFallsToTheReferenceAndSaysWhy) {
  for (const Missing& row : kMissing) {
    Problem p = problem_of(kUsual);
    row.ask(p);
    const Plan plan = make_plan(p, Backend::kAuto, kWide);
    EXPECT_EQ(plan.backend, Backend::kReference) << row.what;
    EXPECT_EQ(plan.why_backend, row.what);
    EXPECT_EQ(make_plan(p, Backend::kReference, kWide).why_backend, "asked for");
  }
}

TEST(Planner, EveryOtherOptionIsDoneByTheCpu) {
  std::int32_t zeros[2] = {};
  Problem p = problem_of(kUsual, DType::kBfloat16);
  for (core::Tensor* option : {&p.mask, &p.bias, &p.alibi, &p.sink, &p.offsets, &p.lse})
    *option = present();
  for (core::Tensor* option : {&p.kv_lengths, &p.kv_starts, &p.cache_batch_idx, &p.cu_seqlens_q,
                               &p.cu_seqlens_k, &p.seqused_q, &p.seqused_k})
    *option = test::integers(zeros);
  p.state_out = p.state_lse = present();
  p.dropout.p = 0.5f;
  p.softcap = 30, p.left = 128, p.right = 0, p.alignment = core::Alignment::kOffsets;
  EXPECT_EQ(make_plan(p, Backend::kAuto, kWide).backend, Backend::kCpu);
  p.cu_seqlens_k = p.seqused_k = {};
  p.block_table = test::integers(zeros);
  EXPECT_EQ(make_plan(p, Backend::kAuto, kWide).backend, Backend::kCpu);
}

// ---- Packing ----

constexpr const char* kAsTheyLie = "k and v are read as they lie";
constexpr const char* kWidened = "16-bit keys and values are widened to float32";
constexpr const char* kStrided = "the last dimension of k or v has a stride";
constexpr const char* kPanels = "the value dimension is no whole number of panels";
constexpr const char* kFar = "rows of k or v lie 1 KiB or more apart, and are read often";

struct Packed {
  Shape shape;
  DType dtype;
  std::int64_t k_stride[2], v_stride[2];  // of dimensions 1 and 3; 0: as heads_first says
  std::int64_t lanes;
  Packing packing;
  const char* why;
};

constexpr Shape shaped(std::int64_t queries, std::int64_t keys, std::int64_t group,
                       std::int64_t value_dim) {
  return {.batch = 1,
          .queries = queries,
          .keys = keys,
          .heads = group,
          .kv_heads = 1,
          .dim = 64,
          .value_dim = value_dim};
}

constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kBf16 = DType::kBfloat16;
constexpr Packed kPackings[] = {
    {shaped(512, 512, 1, 64), kF32, {}, {}, 16, Packing::kNone, kAsTheyLie},
    {shaped(512, 512, 1, 64), kF16, {}, {}, 16, Packing::kHead, kWidened},
    {shaped(512, 512, 1, 64), kBf16, {}, {}, 16, Packing::kHead, kWidened},
    {shaped(512, 512, 1, 64), kF32, {0, 2}, {}, 16, Packing::kHead, kStrided},
    {shaped(512, 512, 1, 64), kF32, {}, {0, 512}, 16, Packing::kHead, kStrided},
    {shaped(512, 512, 1, 64), kF32, {}, {0, -1}, 16, Packing::kHead, kStrided},
    // Panels are two vectors wide.
    {shaped(512, 512, 1, 63), kF32, {}, {}, 16, Packing::kHead, kPanels},
    {shaped(512, 512, 1, 48), kF32, {}, {}, 16, Packing::kHead, kPanels},
    {shaped(512, 512, 1, 48), kF32, {}, {}, 8, Packing::kNone, kAsTheyLie},
    {shaped(512, 512, 1, 63), kF32, {}, {}, 1, Packing::kHead, kPanels},
    // Far apart and read by four strips: of 32 queries each, or of several heads.
    {shaped(128, 512, 1, 64), kF32, {256, 0}, {}, 16, Packing::kHead, kFar},
    {shaped(128, 512, 1, 64), kF32, {}, {-256, 0}, 16, Packing::kHead, kFar},
    {shaped(128, 512, 1, 64), kF32, {255, 0}, {-255, 0}, 16, Packing::kNone, kAsTheyLie},
    {shaped(97, 512, 1, 64), kF32, {256, 0}, {}, 16, Packing::kHead, kFar},
    {shaped(96, 512, 1, 64), kF32, {4096, 0}, {4096, 0}, 16, Packing::kNone, kAsTheyLie},
    {shaped(96, 512, 1, 64), kF32, {4096, 0}, {}, 8, Packing::kHead, kFar},
    {shaped(9, 512, 4, 64), kF32, {512, 0}, {}, 16, Packing::kHead, kFar},
    {shaped(9, 512, 3, 64), kF32, {512, 0}, {}, 16, Packing::kNone, kAsTheyLie},
    // 341 blocks of 96 x 128 float32 are the last that 16 MiB hold.
    {shaped(512, 341 * 96, 1, 64), kF16, {}, {}, 16, Packing::kHead, kWidened},
    {shaped(512, 341 * 96 + 1, 1, 64), kF16, {}, {}, 16, Packing::kBlock, kWidened},
    {shaped(512, 341 * 96 + 1, 1, 64), kF32, {}, {}, 16, Packing::kNone, kAsTheyLie},
    {shaped(512, 1 << 20, 1, 64), kF32, {512, 0}, {}, 16, Packing::kBlock, kFar},
};

TEST(Planner, PackingAndWhy) {
  for (std::size_t n = 0; n < std::size(kPackings); ++n) {
    const Packed& row = kPackings[n];
    Problem p = problem_of(row.shape, row.dtype);
    if (row.k_stride[0] != 0) p.k.stride[1] = row.k_stride[0];
    if (row.k_stride[1] != 0) p.k.stride[3] = row.k_stride[1];
    if (row.v_stride[0] != 0) p.v.stride[1] = row.v_stride[0];
    if (row.v_stride[1] != 0) p.v.stride[3] = row.v_stride[1];
    for (const Backend backend : {Backend::kCpu, Backend::kStandard}) {
      const Plan plan = make_plan(p, backend, {"invented", row.lanes, 2});
      EXPECT_EQ(plan.packing, row.packing) << "row " << n;
      EXPECT_EQ(plan.why_packing, row.why) << "row " << n;
    }
  }
}

// ---- Bytes ----

std::int64_t worker_bytes(const Problem& p) {
  return make_plan(p, Backend::kCpu, kWide).worker_bytes;
}

TEST(Planner, CopiesTakeTheirPlaceInTheWorkspace) {
  const std::int64_t block = 96 * (64 + 64) + 2;  // and whose it is
  for (const auto& [keys, blocks] :
       {std::pair<std::int64_t, std::int64_t>{96, 1}, {97, 2}, {2048, 22}}) {
    const Shape shape = shaped(512, keys, 1, 64);
    const std::int64_t plain = worker_bytes(problem_of(shape));
    EXPECT_EQ(worker_bytes(problem_of(shape, kF16)), (plain + 4 * block * blocks + 63) / 64 * 64);
  }
  const Shape large = shaped(512, 1 << 20, 1, 64);
  EXPECT_EQ(worker_bytes(problem_of(large, kF16)),
            (worker_bytes(problem_of(large)) + 4 * block + 63) / 64 * 64)
      << "one block at a time";
}

TEST(Planner, MaskAndBiasTakeOneBlock) {
  const std::int64_t plain = worker_bytes(problem_of(kUsual));
  for (const bool mask : {false, true})
    for (const bool bias : {false, true}) {
      Problem p = problem_of(kUsual);
      if (mask) p.mask = present();
      if (bias) p.bias = present();
      EXPECT_EQ(worker_bytes(p), plain + (mask || bias ? 4 * 96 * (32 + 4) : 0));
    }
  Problem p = problem_of(kUsual);
  p.mask = present();
  EXPECT_EQ(make_plan(p, Backend::kCpu, {"invented", 1, 1}).worker_bytes,
            (4 * (844 + 96 * (2 + 1)) + 63) / 64 * 64)
      << "without vectors one row is gathered at a time";
}

TEST(Planner, StandardStoresTheScores) {
  const Shape shape{.batch = 3,
                    .queries = 100,
                    .keys = 100,
                    .heads = 2,
                    .kv_heads = 1,
                    .dim = 64,
                    .value_dim = 64};
  const Plan plan = make_plan(problem_of(shape), Backend::kStandard, {"invented", 16, 64});
  EXPECT_EQ(plan.backend, Backend::kStandard);
  EXPECT_EQ(plan.task_queries, 32) << "a strip";
  EXPECT_EQ(plan.tasks, 3 * 2 * 4);
  // Whole blocks of keys, one tile of them more, m and l, for four strips of 32 queries.
  EXPECT_EQ(plan.shared_bytes, 3 * 2 * 4 * (192 + 8 + 2) * 32 * 4);
  EXPECT_EQ(plan.workspace_bytes(), plan.shared_bytes + plan.workers * plan.worker_bytes);
  // Of the scratch one strip: 4 ((D + Dv) strip + (96 + key_tile) strip + 4 D).
  EXPECT_EQ(plan.worker_bytes, 4 * (128 * 32 + 104 * 32 + 4 * 64));
  const Plan narrow = make_plan(problem_of(shape), Backend::kStandard, {"invented", 4, 1});
  EXPECT_EQ(narrow.shared_bytes, 3 * 2 * 13 * (192 + 6 + 2) * 8 * 4);
  EXPECT_EQ(make_plan(problem_of(shape), Backend::kCpu, kWide).shared_bytes, 0);
}

TEST(Planner, BytesAreWholeLines) {
  for (const std::int64_t lanes : {1, 4, 8, 16})
    for (std::int64_t size = 1; size < 40; ++size) {
      const Shape shape{.batch = 1,
                        .queries = size,
                        .keys = 2 * size,
                        .heads = 1,
                        .kv_heads = 1,
                        .dim = size,
                        .value_dim = size};
      const Plan plan = make_plan(problem_of(shape), Backend::kStandard, {"invented", lanes, 2});
      ASSERT_EQ(plan.worker_bytes % 64, 0);
      ASSERT_EQ(plan.shared_bytes % 64, 0);
    }
}

// Keys may be expanded (stride 0), so that sizes are bounded by arithmetic alone.
TEST(Planner, HugeSizesDoNotWrapAround) {
  const std::int64_t many = std::int64_t{1} << 31;
  const Shape shape{.batch = 1,
                    .queries = many,
                    .keys = many,
                    .heads = 1,
                    .kv_heads = 1,
                    .dim = 64,
                    .value_dim = 64};
  const Plan tiled = make_plan(problem_of(shape, kF16), Backend::kCpu, kWide);
  EXPECT_EQ(tiled.packing, Packing::kBlock);
  EXPECT_GT(tiled.workspace_bytes(), 0);
  for (const std::int64_t size : {many, many / 2, many * 16}) {
    const Shape square{.batch = 1,
                       .queries = size,
                       .keys = size,
                       .heads = 1,
                       .kv_heads = 1,
                       .dim = 1,
                       .value_dim = 1};
    const Plan stored = make_plan(problem_of(square), Backend::kStandard, kWide);
    EXPECT_GE(stored.workspace_bytes(), std::int64_t{1} << 61) << "what nobody can allocate";
  }
}

// ---- Tasks ----

struct Tasks {
  std::int64_t keys, threads, strips;
};
// Eight heads of 4096 queries: 16 tasks each where a task has eight strips of 32.
constexpr Tasks kTasks[] = {
    {4096, 2, 2},   // 2 MiB of keys and values are near
    {4097, 1, 8},   // one key more is far
    {4097, 32, 8},  // 128 tasks, four for each thread
    {4097, 33, 4},  // else fewer strips, and more tasks
    {4097, 64, 4}, {4097, 65, 2}, {4097, 100'000, 2}, {1 << 20, 2, 8},
};

TEST(Planner, StripsOfATask) {
  for (const Tasks& row : kTasks) {
    const Shape shape{.batch = 1,
                      .queries = 4096,
                      .keys = row.keys,
                      .heads = 8,
                      .kv_heads = 8,
                      .dim = 64,
                      .value_dim = 64};
    const Device device{"invented", 16, row.threads};
    const Plan plan = make_plan(problem_of(shape), Backend::kCpu, device);
    EXPECT_EQ(plan.task_queries, 32 * row.strips) << row.keys << " keys, " << row.threads;
    EXPECT_EQ(plan.tasks, 8 * (4096 / 32) / row.strips);
    EXPECT_EQ(plan.worker_bytes, 4 * (row.strips * 128 * 32 + 104 * 32 + 4 * 64));
    EXPECT_EQ(make_plan(problem_of(shape), Backend::kStandard, device).task_queries, 32);
  }
}

// ---- Workers ----

std::int64_t workers(const Shape& shape, std::int64_t threads) {
  return make_plan(problem_of(shape), Backend::kCpu, {"invented", 4, threads}).workers;
}

TEST(Planner, AWorkerForEveryFourMillionOperations) {
  const auto shape = [](std::int64_t batch, std::int64_t length) {
    return Shape{.batch = batch,
                 .queries = length,
                 .keys = length,
                 .heads = 1,
                 .kv_heads = 1,
                 .dim = 64,
                 .value_dim = 64};
  };
  EXPECT_EQ(workers(shape(1, 124), 64), 1);
  EXPECT_EQ(workers(shape(1, 125), 64), 2) << "2 * 125 * 125 * 128 is 4 million";
  EXPECT_EQ(workers(shape(9, 125), 64), 10);
  EXPECT_EQ(workers(shape(9, 125), 3), 3) << "no more than there are threads";
  EXPECT_EQ(workers(shape(9, 125), 1), 1);
}

TEST(Planner, NoMoreWorkersThanTasks) {
  const Shape shape{.batch = 3,
                    .queries = 16,
                    .keys = 100'000,
                    .heads = 1,
                    .kv_heads = 1,
                    .dim = 64,
                    .value_dim = 64};
  EXPECT_EQ(workers(shape, 64), 3);
}

TEST(Planner, NothingIsNoTask) {
  for (std::int64_t Shape::* size : {&Shape::batch, &Shape::queries, &Shape::heads}) {
    Shape shape = kUsual;
    shape.*size = 0;
    for (const Backend backend : {Backend::kCpu, Backend::kStandard, Backend::kReference}) {
      const Plan plan = make_plan(problem_of(shape), backend, kWide);
      EXPECT_EQ(plan.tasks, 0);
      EXPECT_EQ(plan.workers, 1);
    }
  }
  Shape shape = kUsual;
  shape.keys = 0;
  EXPECT_EQ(make_plan(problem_of(shape), Backend::kCpu, kWide).tasks, 256) << "rows of zeros";
}

// ---- A plan is a value ----

TEST(Planner, TheSameTwice) {
  for (const Packed& row : kPackings)
    for (const Backend backend :
         {Backend::kAuto, Backend::kCpu, Backend::kStandard, Backend::kReference}) {
      const Problem p = problem_of(row.shape, row.dtype), same = problem_of(row.shape, row.dtype);
      const Device device{"invented", row.lanes, 7};
      EXPECT_EQ(make_plan(p, backend, device), make_plan(same, backend, device));
    }
}

TEST(Planner, DataIsNotLookedAt) {
  Problem p = problem_of(kUsual);
  const Plan plan = make_plan(p, Backend::kCpu, kWide);
  for (core::Tensor* t : {&p.q, &p.k, &p.v, &p.out}) t->data = nullptr;
  EXPECT_EQ(make_plan(p, Backend::kCpu, kWide), plan);
}

TEST(Plan, EveryFieldCountsForEquality) {
  const Plan plan = make_plan(problem_of(kUsual), Backend::kCpu, kWide);
  const auto changed = [&](auto change) {
    Plan other = plan;
    change(other);
    return other != plan;
  };
  EXPECT_FALSE(changed([](Plan&) {}));
  EXPECT_TRUE(changed([](Plan& p) { p.backend = Backend::kStandard; }));
  EXPECT_TRUE(changed([](Plan& p) { p.device.target = "avx2"; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.device.lanes; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.device.threads; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.tile_queries; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.tile_keys; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.task_queries; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.tasks; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.workers; }));
  EXPECT_TRUE(changed([](Plan& p) { p.packing = Packing::kBlock; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.worker_bytes; }));
  EXPECT_TRUE(changed([](Plan& p) { ++p.shared_bytes; }));
  EXPECT_TRUE(changed([](Plan& p) { p.why_backend = ""; }));
  EXPECT_TRUE(changed([](Plan& p) { p.why_packing = ""; }));
  EXPECT_TRUE(changed([](Plan& p) { p.why_arithmetic = ""; }));
  EXPECT_TRUE(changed([](Plan& p) { p.arithmetic = Arithmetic::kTiles; }));
}

}  // namespace
}  // namespace tessera::plan
