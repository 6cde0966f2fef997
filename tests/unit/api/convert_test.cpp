// What a description becomes when nothing is wrong with it.
#include "api/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "unit/api/subject.hpp"

namespace tessera::test {
namespace {

using api::Purpose;
using core::Alignment;
using core::Band;
using core::Index4;
using core::Problem;

Problem problem_of(const Subject& s) { return api::convert(s.desc, Purpose::kRun).problem; }

TEST(Convert, SizesComeFromTheTensors) {
  const Problem p = problem_of(Subject());
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.queries, 3);
  EXPECT_EQ(p.keys, 3);
  EXPECT_EQ(p.heads, 4);
  EXPECT_EQ(p.kv_heads, 2);
  EXPECT_EQ(p.dim, 8);
  EXPECT_EQ(p.value_dim, 5);
  EXPECT_EQ(p.k.stride, (Index4{48, 16, 8, 1}));
  EXPECT_TRUE(p.lse.present());
  EXPECT_FALSE(p.mask.present());
}

TEST(Convert, ScaleDefaultsToTheRootOfTheDim) {
  Subject s;
  EXPECT_EQ(problem_of(s).scale, float(1 / std::sqrt(8.)));
  for (const float scale : {0.f, 1.f, 3e38f}) {
    s.desc.scale = scale;
    EXPECT_EQ(problem_of(s).scale, scale);
  }
}

TEST(Convert, ScaleDefaultsInDoublePrecisionForFloat64) {
  Subject s;
  std::vector<double> q(1000), k(1000), v(1000), out(1000);
  s.desc.lse = tessera_tensor_default();
  const std::pair<tessera_tensor*, double*> tensors[] = {{&s.desc.q, q.data()},
                                                         {&s.desc.k, k.data()},
                                                         {&s.desc.v, v.data()},
                                                         {&s.desc.out, out.data()}};
  for (const auto& [tensor, data] : tensors) tensor->dtype = TESSERA_FLOAT64, tensor->data = data;
  EXPECT_EQ(problem_of(s).scale, 1 / std::sqrt(8.));
}

TEST(Convert, BandsSaturate) {
  Subject s;
  EXPECT_FALSE((Band{problem_of(s).left, problem_of(s).right}).bounded());
  s.desc.left = INT64_MAX - 1;
  s.desc.right = 7;
  s.desc.align = TESSERA_ALIGN_OFFSET;
  s.desc.offset = INT64_MIN;
  const Problem p = problem_of(s);
  EXPECT_EQ(p.left, Band::kUnbounded);
  EXPECT_EQ(p.right, 7);
  EXPECT_EQ(p.offset, -Band::kUnbounded);
}

TEST(Convert, EachAlignmentIsKnown) {
  Subject s;
  s.desc.right = 0;
  const std::pair<std::uint32_t, Alignment> all[] = {
      {TESSERA_ALIGN_UNSET, Alignment::kTopLeft},
      {TESSERA_ALIGN_TOP_LEFT, Alignment::kTopLeft},
      {TESSERA_ALIGN_BOTTOM_RIGHT, Alignment::kBottomRight},
      {TESSERA_ALIGN_OFFSET, Alignment::kOffset}};
  for (const auto& [given, wanted] : all) {
    s.desc.align = given;
    EXPECT_EQ(problem_of(s).alignment, wanted);
  }
  s.desc.align = TESSERA_ALIGN_OFFSETS;
  s.desc.offsets = s.hold(std::vector<std::int64_t>{-4, 9}, {2});
  const Problem p = problem_of(s);
  EXPECT_EQ(p.alignment, Alignment::kOffsets);
  EXPECT_EQ(p.sequence(1).band.offset, 9);
}

// The diagonal need not be named where it cannot matter.
TEST(Convert, UnsetAlignmentIsFineWhereItCannotMatter) {
  Subject s;
  s.desc.q.shape[1] = s.desc.out.shape[1] = s.desc.lse.shape[2] = 2;
  EXPECT_NO_THROW(problem_of(s));  // no band
  Subject square;
  square.desc.right = 0;
  square.desc.kv_lengths = square.hold(std::vector<std::int32_t>{3, 3}, {2});
  EXPECT_NO_THROW(problem_of(square));
}

TEST(Convert, BroadcastsGetStride0) {
  Subject s;
  s.desc.bias = s.hold(std::vector<float>(3), {1, 1, 3, 1});
  for (std::int64_t& stride : s.desc.bias.stride) stride = stride * 1000 + 1;
  s.desc.mask = s.hold(std::vector<std::uint8_t>(3), {2, 4, 3, 3});
  s.desc.mask.stride[0] = s.desc.mask.stride[1] = s.desc.mask.stride[2] = 0;
  const Problem p = problem_of(s);
  EXPECT_EQ(p.bias.stride, (Index4{0, 0, 1001, 0}));
  EXPECT_EQ(p.bias.shape, (Index4{1, 1, 3, 1}));
  EXPECT_EQ(p.mask.stride, (Index4{0, 0, 0, 1}));
}

TEST(Convert, SlopesAreAlwaysByBatchAndHead) {
  Subject s;
  s.desc.alibi = s.hold(std::vector<float>{1, 2, 3, 4}, {4});
  Problem p = problem_of(s);
  EXPECT_EQ(p.alibi.shape, (Index4{2, 4, 1, 1}));
  EXPECT_EQ(p.alibi.load(1, 3), 4);
  s.desc.alibi = s.hold(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  EXPECT_EQ(problem_of(s).alibi.load(1, 3), 8);
}

// A dimension of one element may have any stride: it leads nowhere.
TEST(Convert, StrayStridesOfSingleElementsAreTamed) {
  Subject s;
  for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out, &s.desc.lse}) {
    t->shape[0] = 1;
    t->stride[0] = INT64_MIN;
  }
  s.desc.q.shape[3] = s.desc.k.shape[3] = 1;
  s.desc.q.stride[3] = s.desc.k.stride[3] = INT64_MAX;
  const Problem p = problem_of(s);
  EXPECT_EQ(p.q.stride, (Index4{0, 32, 8, 1}));
}

TEST(Convert, AnyStridesThatKeepElementsApartAreFine) {
  Subject s;
  std::swap(s.desc.out.stride[1], s.desc.out.stride[2]);  // [B, H, Lq, Dv] in memory
  s.desc.out.stride[1] = 5;
  s.desc.out.stride[2] = 15;
  s.desc.k.stride[1] = s.desc.k.stride[2] = 0;
  s.desc.q.data = static_cast<float*>(s.desc.q.data) + 2 * 32;
  s.desc.q.stride[1] = -32;
  s.desc.q.flags = s.desc.k.flags = TESSERA_READ_ONLY;
  EXPECT_EQ(problem_of(s).q.stride[1], -32);
}

TEST(Convert, PackedSequences) {
  Subject s;
  s.pack_queries();
  s.pack_keys();
  s.desc.seqused_k = s.hold(std::vector<std::int32_t>{1, 0}, {2});
  const Problem p = problem_of(s);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.queries, 3);
  EXPECT_EQ(p.sequence(1).queries, 2);
  EXPECT_EQ(p.sequence(1).q_begin, 1);
  EXPECT_TRUE(p.sequence(1).keys.empty());
}

// In a mask a packed or paged sequence is counted from 0, so it may be longer than the longest.
TEST(Convert, MasksOfPackedAndPagedSequencesMayBeLonger) {
  Subject s;
  s.pack_queries();
  s.page();
  s.desc.mask = s.hold(std::vector<std::uint8_t>(8 * 9), {1, 1, 8, 9});
  s.desc.bias = s.hold(std::vector<float>(2 * 3), {1, 1, 2, 3});
  const Problem p = problem_of(s);
  EXPECT_EQ(p.keys, 4);  // the slots that a row of the table has
  EXPECT_EQ(p.mask.stride, (Index4{0, 0, 9, 1}));
  EXPECT_EQ(p.sequence(0).keys.end, 3);
  EXPECT_EQ(p.place(p.sequence(0), 0, 2).batch, 0);
}

TEST(Convert, CacheRowsFreeTheBatchOfKeys) {
  Subject s;
  s.desc.k = s.hold(std::vector<float>(7 * 48), {7, 3, 2, 8});
  s.desc.v = s.hold(std::vector<float>(7 * 30), {7, 3, 2, 5});
  s.desc.cache_batch_idx = s.hold(std::vector<std::int32_t>{6, 6}, {2});
  EXPECT_EQ(problem_of(s).sequence(0).k_batch, 6);
}

TEST(Convert, DropoutAndStateAreCarried) {
  Subject s;
  s.desc.dropout_p = 0.25f;
  s.desc.dropout_seed = UINT64_MAX;
  s.desc.dropout_offset = 3;
  s.desc.state_out = s.hold(std::vector<float>(120), {2, 3, 4, 5});
  s.desc.state_lse = s.hold(std::vector<float>(24), {2, 4, 3});
  const Problem p = problem_of(s);
  EXPECT_EQ(p.dropout, (core::Dropout{0.25f, UINT64_MAX, 3}));
  EXPECT_TRUE(p.state_out.present() && p.state_lse.present());
}

TEST(Convert, WhatIsEmptyNeedsNoData) {
  Subject s;
  for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out, &s.desc.lse}) {
    t->shape[0] = 0;
    t->data = nullptr;
    for (std::int64_t& stride : t->stride) stride = INT64_MIN;
  }
  const Problem p = problem_of(s);
  EXPECT_EQ(p.batch, 0);
  EXPECT_EQ(p.q.stride, (Index4{0, 0, 0, 1}));
}

TEST(Convert, ADescriptionOfThePlanNeedsNoData) {
  Subject s;
  s.desc.q.data = s.desc.k.data = s.desc.v.data = s.desc.out.data = nullptr;
  const api::Call call = api::convert(s.desc, Purpose::kDescribe);
  EXPECT_EQ(call.problem.heads, 4);
}

}  // namespace
}  // namespace tessera::test
