#include "core/problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera::core {
namespace {

// A vector of integers as a tensor.
class Integers {
 public:
  Integers(std::vector<std::int32_t> values, std::int64_t columns = 1)
      : values_(std::move(values)), columns_(columns) {}

  Tensor tensor() {
    const auto rows = std::int64_t(values_.size()) / columns_;
    return {values_.data(), {rows, columns_, 1, 1}, {columns_, 1, 1, 1}, DType::kInt32};
  }

 private:
  std::vector<std::int32_t> values_;
  std::int64_t columns_;
};

Problem dense() {
  Problem p;
  p.batch = 2;
  p.heads = 6;
  p.kv_heads = 2;
  p.queries = 4;
  p.keys = 9;
  p.dim = p.value_dim = 1;
  p.k.shape = {2, 9, 2, 1};
  return p;
}

TEST(Problem, QueryHeadsShareKeyHeadsInGroups) {
  const Problem p = dense();
  EXPECT_EQ(p.group(), 3);
  EXPECT_EQ(p.kv_head(2), 0);
  EXPECT_EQ(p.kv_head(3), 1);
}

TEST(Problem, DenseSequences) {
  const Problem p = dense();
  const Sequence s = p.sequence(1);
  EXPECT_EQ(s.q_batch, 1);
  EXPECT_EQ(s.k_batch, 1);
  EXPECT_EQ(s.queries, 4);
  EXPECT_EQ(s.keys, (Range{0, 9}));
  EXPECT_EQ(s.band, Band{});
  EXPECT_EQ(p.place(s, 1, 5).batch, 1);
  EXPECT_EQ(p.place(s, 1, 5).row, 5);
}

TEST(Problem, LengthsStartsAndCacheRows) {
  Integers lengths{{3, 7}}, starts{{0, 2}}, rows{{1, 0}};
  Problem p = dense();
  p.kv_lengths = lengths.tensor();
  p.kv_starts = starts.tensor();
  p.cache_batch_idx = rows.tensor();
  EXPECT_EQ(p.sequence(0).keys, (Range{0, 3}));
  EXPECT_EQ(p.sequence(1).keys, (Range{2, 7}));
  EXPECT_EQ(p.sequence(0).k_batch, 1);
  EXPECT_EQ(p.sequence(1).q_batch, 1);
}

// Bottom-right counts the keys of the sequence, padding at its start included.
TEST(Problem, Alignments) {
  Integers lengths{{3, 7}}, starts{{1, 2}}, offsets{{-5, 8}};
  Problem p = dense();
  p.right = 0;
  p.offset = 6;
  p.alignment = Alignment::kOffset;
  EXPECT_EQ(p.sequence(1).band.offset, 6);
  p.offset = 0;
  p.alignment = Alignment::kTopLeft;
  EXPECT_EQ(p.sequence(1).band.offset, 0);
  p.alignment = Alignment::kBottomRight;
  EXPECT_EQ(p.sequence(1).band.offset, 9 - 4);
  p.kv_lengths = lengths.tensor();
  p.kv_starts = starts.tensor();
  EXPECT_EQ(p.sequence(0).band.offset, 3 - 4);
  EXPECT_EQ(p.sequence(1).band.offset, 7 - 4);
  p.alignment = Alignment::kOffsets;
  p.offsets = offsets.tensor();
  EXPECT_EQ(p.sequence(0).band.offset, -5);
  EXPECT_EQ(p.sequence(1).band.offset, 8);
}

TEST(Problem, PackedSequences) {
  Integers q{{0, 3, 4}}, k{{0, 2, 9}}, used_q{{2, 1}}, used_k{{2, 5}};
  Problem p = dense();
  p.right = 0;
  p.alignment = Alignment::kBottomRight;
  p.cu_seqlens_q = q.tensor();
  p.cu_seqlens_k = k.tensor();
  const Sequence s = p.sequence(1);
  EXPECT_EQ(s.q_batch, 0);
  EXPECT_EQ(s.q_begin, 3);
  EXPECT_EQ(s.queries, 1);
  EXPECT_EQ(s.keys, (Range{0, 7}));
  EXPECT_EQ(s.band.offset, 6);
  EXPECT_EQ(p.place(s, 1, 4).batch, 0);
  EXPECT_EQ(p.place(s, 1, 4).row, 6);
  p.seqused_q = used_q.tensor();
  p.seqused_k = used_k.tensor();
  EXPECT_EQ(p.sequence(0).queries, 2);
  EXPECT_EQ(p.sequence(1).keys, (Range{0, 5}));
  EXPECT_EQ(p.sequence(1).band.offset, 4);
}

TEST(Problem, RowsBetweenPackedSequencesAreNoQueries) {
  Integers q{{0, 3, 4}}, used{{2, 0}};
  Problem p = dense();
  p.queries = 6;
  p.cu_seqlens_q = q.tensor();
  EXPECT_TRUE(p.rows_between(0).empty());
  EXPECT_TRUE(p.rows_between(1).empty());
  EXPECT_EQ(p.rows_between(2), (Range{4, 6}));
  p.seqused_q = used.tensor();
  EXPECT_EQ(p.rows_between(1), (Range{2, 3}));
  EXPECT_EQ(p.rows_between(2), (Range{3, 6}));
  p.batch = 0;
  EXPECT_EQ(p.rows_between(0), (Range{0, 6})) << "without sequences all of them";
}

TEST(Problem, SequencesVaryWhereSomethingSaysHowLongTheyAre) {
  Integers numbers{{0, 3, 4}};
  EXPECT_FALSE(dense().varies());
  for (Tensor Problem::* lengths : {&Problem::cu_seqlens_q, &Problem::cu_seqlens_k,
                                    &Problem::kv_lengths, &Problem::kv_starts}) {
    Problem p = dense();
    p.*lengths = numbers.tensor();
    EXPECT_TRUE(p.varies());
  }
  EXPECT_EQ(dense().sequence(1).index, 1);
}

TEST(Problem, Pages) {
  Integers table{{2, 0, 1, 2}, 2}, lengths{{5, 3}};
  Problem p = dense();
  p.k.shape = {3, 4, 2, 1};
  p.keys = 12;
  p.block_table = table.tensor();
  p.kv_lengths = lengths.tensor();
  const Sequence s = p.sequence(0);
  EXPECT_EQ(s.keys, (Range{0, 5}));
  EXPECT_EQ(p.place(s, 0, 3).batch, 2);
  EXPECT_EQ(p.place(s, 0, 3).row, 3);
  EXPECT_EQ(p.place(s, 0, 4).batch, 0);
  EXPECT_EQ(p.place(s, 0, 4).row, 0);
}

// Whatever the arrays hold, no row outside the memory of q and k is named.
TEST(Problem, NonsenseIsClampedToWhatExists) {
  Integers bad_lengths{{100, -4}}, bad_starts{{-3, 50}}, bad_rows{{7, -1}};
  Problem p = dense();
  p.kv_lengths = bad_lengths.tensor();
  p.kv_starts = bad_starts.tensor();
  p.cache_batch_idx = bad_rows.tensor();
  EXPECT_EQ(p.sequence(0).keys, (Range{0, 9}));
  EXPECT_TRUE(p.sequence(1).keys.empty());
  EXPECT_EQ(p.sequence(0).k_batch, 1);
  EXPECT_EQ(p.sequence(1).k_batch, 0);

  Integers cu{{-5, 3, 80}}, backwards{{3, 1, 2}};
  Problem packed = dense();
  packed.cu_seqlens_q = packed.cu_seqlens_k = cu.tensor();
  EXPECT_EQ(packed.sequence(0).q_begin, 0);
  EXPECT_EQ(packed.sequence(1).queries, 1);
  EXPECT_EQ(packed.sequence(1).keys, (Range{0, 6}));
  packed.cu_seqlens_q = backwards.tensor();
  EXPECT_EQ(packed.sequence(0).queries, 0);

  Integers table{{99, -1}, 1}, lengths{{100, 100}};
  Problem paged = dense();
  paged.k.shape = {3, 4, 2, 1};
  paged.block_table = table.tensor();
  paged.kv_lengths = lengths.tensor();
  EXPECT_EQ(paged.sequence(0).keys, (Range{0, 4}));  // what one page of the table can hold
  EXPECT_EQ(paged.place(paged.sequence(0), 0, 1).batch, 2);
  EXPECT_EQ(paged.place(paged.sequence(1), 1, 1).batch, 0);
  paged.k.shape[0] = 0;
  EXPECT_TRUE(paged.sequence(0).keys.empty());
}

TEST(Dropout, KeepsTheRightShare) {
  for (const float p : {0.f, 0.1f, 0.5f, 0.9f}) {
    const Dropout dropout{p, 42, 1};
    int kept = 0;
    for (std::int64_t i = 0; i < 100; ++i)
      for (std::int64_t j = 0; j < 100; ++j) kept += dropout.keeps(3, i, j);
    EXPECT_NEAR(kept / 1e4, 1 - double(p), 0.02);
    EXPECT_NEAR(dropout.factor(), 1 / (1 - double(p)), 1e-15);
  }
}

// key = seed, counter = (j / 4, i, b H + h, offset), word j % 4, kept iff not below round(p 2^32).
TEST(Dropout, IsTheWordOfTheContract) {
  const std::uint64_t seed = 0x0123456789abcdef;
  for (std::int64_t j = 0; j < 9; ++j) {
    const auto words = philox({std::uint32_t(j / 4), 5, 7, 11}, {0x89abcdef, 0x01234567});
    for (const float p : {0.25f, 0.5f, 0.75f}) {
      const Dropout dropout{p, seed, 11};
      EXPECT_EQ(dropout.keeps(7, 5, j), words[std::size_t(j % 4)] >= double(p) * 4294967296.);
    }
  }
  EXPECT_EQ((Dropout{0.25f, 0, 0}.threshold()), 0x40000000u);
  EXPECT_EQ((Dropout{0x1p-33f, 0, 0}.threshold()), 1u);
  EXPECT_EQ((Dropout{1 - 0x1p-24f, 0, 0}.threshold()), 0xffffff00u);
}

// A word that is the threshold itself, found among those that a float32 can name.
TEST(Dropout, AWordEqualToTheThresholdIsKept) {
  int found = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const std::uint32_t word = philox({0, std::uint32_t(i), 0, 0}, {3, 0})[0];
    if (word % 256 != 0) continue;
    const auto p = float(double(word) * 0x1p-32);
    ++found;
    EXPECT_TRUE((Dropout{p, 3, 0}.keeps(0, i, 0)));
    EXPECT_FALSE((Dropout{std::nextafter(p, 1.f), 3, 0}.keeps(0, i, 0)));
  }
  EXPECT_GT(found, 0);
}

TEST(Problem, ComparesByValue) {
  Problem a = dense(), b = dense();
  EXPECT_EQ(a, b);
  b.dropout.seed = 1;
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace tessera::core
