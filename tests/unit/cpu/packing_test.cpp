#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/array.hpp"
#include "unit/cpu/words.hpp"

namespace tessera::test {
namespace {

using plan::Packing;

class Packer : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Packer, testing::ValuesIn(present_words()), target_name);

// Keys and values that say where they lie.
struct Subject {
  Subject(DType dtype, Layout layout, std::int64_t value_dim)
      : k(dtype, {2, 250, 3, 7}, layout), v(dtype, {2, 250, 3, value_dim}, layout) {
    k.fill([](const Index4& i) { return value(i); });
    v.fill([](const Index4& i) { return -value(i); });
    p.batch = 2, p.heads = p.kv_heads = 3;
    p.queries = 1, p.keys = 250;
    p.dim = 7, p.value_dim = value_dim;
    p.k = k.tensor(), p.v = v.tensor();
  }
  // A whole number that every type here holds, different for neighbours.
  static double value(const Index4& i) {
    return double((i[0] * 31 + i[1] * 7 + i[2] * 5 + i[3] * 3) % 127 + 1);
  }

  Array k, v;
  core::Problem p;
};

const std::vector<Words::Wanted> kWanted{
    {0, 0, {0, 96}},    {0, 0, {96, 192}},  {0, 0, {192, 250}}, {0, 1, {0, 96}},
    {0, 1, {100, 101}}, {1, 1, {0, 96}},    {1, 1, {192, 193}}, {0, 0, {0, 96}},
    {1, 2, {95, 96}},   {1, 2, {249, 250}}, {1, 2, {130, 170}}, {1, 2, {96, 97}},
};

void check(const Words& w, const Subject& s, Packing packing) {
  std::size_t seen = 0, keys = 0;
  w.pack(s.p, packing, kWanted, [&](const auto& wanted, std::int64_t j, const PackedKey& key) {
    ++seen;
    for (std::int64_t i = 0; i < s.p.dim; ++i)
      ASSERT_EQ(key.k[i], s.k.at(wanted.batch, j, wanted.kv_head, i)) << j << ' ' << i;
    for (std::int64_t c = 0; c < s.p.value_dim; ++c)
      ASSERT_EQ(key.panel(c / w.panel)[c % w.panel], s.v.at(wanted.batch, j, wanted.kv_head, c))
          << j << ' ' << c;
    if (packing == Packing::kNone) return;
    for (std::int64_t c = s.p.value_dim; c % w.panel != 0; ++c)
      ASSERT_EQ(key.panel(c / w.panel)[c % w.panel], 0.f) << "past the last column";
  });
  for (const Words::Wanted& one : kWanted) keys += std::size_t(one.keys.size());
  EXPECT_EQ(seen, keys);
}

TEST_P(Packer, CopiesEveryTypeAndLayout) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16})
    for (const Layout layout : {Layout::kDense, Layout::kHeadsFirst, Layout::kTransposed,
                                Layout::kSpread, Layout::kPadded, Layout::kReversed})
      for (const Packing packing : {Packing::kHead, Packing::kBlock})
        for (const std::int64_t value_dim : {w.panel - 1, w.panel, w.panel + 1})
          check(w, Subject(dtype, layout, value_dim), packing);
}

TEST_P(Packer, ReadsFloat32InPlace) {
  for (const Layout layout :
       {Layout::kDense, Layout::kHeadsFirst, Layout::kPadded, Layout::kReversed}) {
    const Subject s(DType::kFloat32, layout, 2 * w.panel);
    check(w, s, Packing::kNone);
    w.pack(s.p, Packing::kNone, {{1, 2, {5, 6}}},
           [&](const auto&, std::int64_t, const PackedKey& key) {
             EXPECT_EQ(static_cast<const void*>(key.k), s.p.k.at(1, 5, 2));
             EXPECT_EQ(static_cast<const void*>(key.panel(1)), s.p.v.at(1, 5, 2, w.panel));
           });
  }
}

// A sequence may read the cache row of another: a copy belongs to the row, not the sequence.
TEST_P(Packer, FollowsTheCacheRow) {
  Subject s(DType::kBfloat16, Layout::kDense, w.panel);
  std::int32_t rows[] = {1, 0};
  s.p.cache_batch_idx.data = rows;
  s.p.cache_batch_idx.dtype = DType::kInt32;
  w.pack(s.p, Packing::kHead, {{0, 0, {0, 2}}, {1, 0, {0, 2}}},
         [&](const auto& wanted, std::int64_t j, const PackedKey& key) {
           EXPECT_EQ(key.k[1], s.k.at(1 - wanted.batch, j, 0, 1));
           EXPECT_EQ(key.panel(0)[0], s.v.at(1 - wanted.batch, j, 0, 0));
         });
}

// Keys of a block come from wherever the table says; entries that no key needs are not read.
TEST_P(Packer, GathersPages) {
  for (const std::int64_t page_size : {1, 7, 96, 125}) {
    const std::int64_t pages = 250 / page_size, columns = (200 + page_size - 1) / page_size + 1;
    Subject s(DType::kFloat16, Layout::kPadded, w.panel + 1);
    std::vector<std::int32_t> table(std::size_t(2 * columns), -1);
    std::int32_t lengths[] = {200, 131};
    Array k(DType::kFloat16, {pages, page_size, 3, 7}),
        v(DType::kFloat16, {pages, page_size, 3, 5});
    k.fill([](const Index4& i) { return Subject::value(i); });
    v.fill([](const Index4& i) { return -Subject::value(i); });
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t n = 0; n * page_size < lengths[b]; ++n)
        table[std::size_t(b * columns + n)] = std::int32_t((n * 3 + b) % pages);
    s.p.k = k.tensor(), s.p.v = v.tensor();
    s.p.value_dim = 5;
    s.p.keys = columns * page_size;
    s.p.block_table = {table.data(), {2, columns, 1, 1}, {columns, 1, 0, 1}, DType::kInt32};
    s.p.kv_lengths = {lengths, {2, 1, 1, 1}, {1, 0, 0, 1}, DType::kInt32};
    w.pack(s.p, Packing::kHead, {{0, 0, {0, 96}}, {0, 2, {96, 192}}, {1, 2, {96, 131}}},
           [&](const auto& wanted, std::int64_t j, const PackedKey& key) {
             const std::int64_t page = (j / page_size * 3 + wanted.batch) % pages;
             ASSERT_EQ(key.k[6], k.at(page, j % page_size, wanted.kv_head, 6)) << j;
             ASSERT_EQ(key.panel(0)[0], v.at(page, j % page_size, wanted.kv_head, 0)) << j;
           });
  }
}

// Packed sequences lie in one row of k: a copy belongs to the sequence.
TEST_P(Packer, FollowsThePackedSequence) {
  Subject s(DType::kBfloat16, Layout::kDense, w.panel);
  std::int32_t boundaries[] = {0, 100, 250};
  s.p.cu_seqlens_k = {boundaries, {3, 1, 1, 1}, {1, 0, 0, 1}, DType::kInt32};
  w.pack(s.p, Packing::kHead,
         {{0, 1, {0, 3}}, {1, 1, {0, 3}}, {1, 1, {96, 150}}, {0, 1, {96, 100}}},
         [&](const auto& wanted, std::int64_t j, const PackedKey& key) {
           const std::int64_t row = j + (wanted.batch == 0 ? 0 : 100);
           ASSERT_EQ(key.k[2], s.k.at(0, row, wanted.kv_head, 2)) << j;
           ASSERT_EQ(key.panel(0)[1], s.v.at(0, row, wanted.kv_head, 1)) << j;
         });
}

// A block of keys that lies in one page is read there.
TEST_P(Packer, ReadsWholePagesInPlace) {
  Subject s(DType::kFloat32, Layout::kDense, w.panel);
  Array k(DType::kFloat32, {3, 192, 3, 7}), v(DType::kFloat32, {3, 192, 3, w.panel});
  std::int32_t table[] = {2, 0, 1, 1}, lengths[] = {300, 300};
  s.p.k = k.tensor(), s.p.v = v.tensor();
  s.p.keys = 384;
  s.p.block_table = {table, {2, 2, 1, 1}, {2, 1, 0, 1}, DType::kInt32};
  s.p.kv_lengths = {lengths, {2, 1, 1, 1}, {1, 0, 0, 1}, DType::kInt32};
  w.pack(s.p, Packing::kNone, {{0, 1, {100, 101}}, {0, 1, {200, 201}}},
         [&](const auto&, std::int64_t j, const PackedKey& key) {
           EXPECT_EQ(static_cast<const void*>(key.k), s.p.k.at(j < 192 ? 2 : 0, j % 192, 1)) << j;
         });
}

// Within one head a block stays packed: a change of the memory below is not seen until another head
// takes the slot.
TEST_P(Packer, PacksABlockOnce) {
  for (const Packing packing : {Packing::kHead, Packing::kBlock}) {
    Subject s(DType::kFloat16, Layout::kDense, w.panel);
    std::vector<float> seen;
    w.pack(s.p, packing, {{0, 0, {3, 4}}, {0, 0, {3, 4}}, {0, 1, {3, 4}}, {0, 0, {3, 4}}},
           [&](const auto&, std::int64_t, const PackedKey& key) {
             seen.push_back(key.k[0]);
             s.k.set({0, 3, 0, 0}, 1000 + double(seen.size()));
           });
    EXPECT_EQ(seen[1], seen[0]);
    EXPECT_EQ(seen[3], 1003.f);
  }
}

}  // namespace
}  // namespace tessera::test
