// The reference against a second derivation, for every option alone, in pairs and in any company.
#include <gtest/gtest.h>

#include "core/reference.hpp"
#include "support/reference_matrix.hpp"
#include "support/reference_options.hpp"

namespace tessera::test {
namespace {

void expect_close(const Array& got, const Array& want) {
  want.for_each([&](const Index4& i) {
    const double x = got.at(i[0], i[1], i[2], i[3]), y = want.at(i[0], i[1], i[2], i[3]);
    if (std::isinf(y))
      ASSERT_EQ(x, y);
    else
      ASSERT_NEAR(x, y, 1e-13 * (1 + std::abs(y))) << i[0] << ' ' << i[1] << ' ' << i[2];
  });
}

void expect_same(const Array& a, const Array& b) { EXPECT_EQ(a.elements(), b.elements()); }

void check(unsigned options, std::uint64_t seed) {
  SCOPED_TRACE(name_of_options(options) + " seed " + std::to_string(seed));
  const Call call = call_with(options, seed);
  const MatrixDefinition want(call);
  const double score_max = core::reference::forward(call.problem());
  expect_close(call.out, want.out);
  expect_close(call.lse, want.lse);
  EXPECT_NEAR(score_max, want.score_max, 1e-13 * (1 + want.score_max));
  EXPECT_TRUE(call.out.surroundings_intact() && call.lse.surroundings_intact());
}

TEST(ReferenceOptions, EachAlone) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    check(0, seed);
    for (unsigned option = 1; option < kEveryOption; option *= 2) check(option, seed);
  }
}

TEST(ReferenceOptions, EveryPair) {
  for (unsigned a = 1; a < kEveryOption; a *= 2)
    for (unsigned b = 1; b < a; b *= 2)
      for (std::uint64_t seed = 0; seed < 5; ++seed) check(a | b, seed);
}

TEST(ReferenceOptions, AnyCompany) {
  core::Draws draws(11);
  for (std::uint64_t seed = 0; seed < 1500; ++seed)
    check(unsigned(draws.between(0, kEveryOption)), seed);
}

// forward_row, which the tiled backends call, is the row of forward.
TEST(ReferenceOptions, RowsAreThoseOfTheWhole) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Call call = call_with(unsigned(seed * 821 % kEveryOption) & ~unsigned{kPacked}, seed);
    const core::Problem p = call.problem();
    core::reference::forward(p);
    std::vector<double> row(std::size_t(p.value_dim));
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t i = 0; i < p.queries; ++i) {
          EXPECT_EQ(core::reference::forward_row(p, b, h, i, row), call.lse.at(b, h, i));
          for (std::int64_t d = 0; d < p.value_dim; ++d)
            EXPECT_EQ(row[std::size_t(d)], call.out.at(b, i, h, d));
        }
  }
}

// Memory that no query can see does not exist: NaN there changes not a bit.
TEST(ReferenceOptions, UnseenMemoryIsNotRead) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const unsigned options = unsigned(seed * 2477 % kEveryOption);
    SCOPED_TRACE(name_of_options(options) + " seed " + std::to_string(seed));
    const Call call = call_with(options, seed);
    const MatrixDefinition definition(call);
    core::reference::forward(call.problem());
    Call poisoned = call;
    for (Array* array : {&poisoned.k, &poisoned.v})
      array->for_each([&](const Index4& i) {
        if (!definition.seen.contains({i[0], i[1], i[2]})) array->set(i, kNan);
      });
    core::reference::forward(poisoned.problem());
    expect_same(poisoned.out, call.out);
    expect_same(poisoned.lse, call.lse);
  }
}

// A hidden entry of a bias that is given in full may hold anything.
TEST(ReferenceOptions, HiddenEntriesOfABiasAreNotRead) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Call call = call_with(kWindow | kMask | kLengths | kStarts, seed);
    call.bias = OptionWriter::pair_array(call, DType::kFloat64, 15);
    const MatrixDefinition definition(call);
    const auto fill = [&](double hidden) {
      call.bias.fill([&](const Index4& i) { return definition.pairs.contains(i) ? 0.25 : hidden; });
      core::reference::forward(call.problem());
      return call;
    };
    const Call finite = fill(0);
    for (const double hidden : {kNan, kInf, -kInf}) {
      const Call other = fill(hidden);
      expect_same(other.out, finite.out);
      expect_same(other.lse, finite.lse);
    }
  }
}

// The same numbers in any layout and any wider type give the same bits.
TEST(ReferenceOptions, LayoutsDoNotMatter) {
  for (const Layout layout : kLayouts) {
    if (layout == Layout::kSharedByHeads) continue;
    const Call call = call_with(kSoftcap | kWindow, 3);
    core::reference::forward(call.problem());
    Call other = call;
    for (Array* array : {&other.q, &other.k, &other.v, &other.out})
      *array = array->converted(DType::kFloat64, layout);
    core::reference::forward(other.problem());
    expect_same(other.out, call.out);
    EXPECT_TRUE(other.out.surroundings_intact()) << name_of(layout);
  }
}

TEST(ReferenceOptions, TypesAreRoundedOnceAtTheEnd) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    Call call = call_with(kBias, 4);
    for (Array* array : {&call.q, &call.k, &call.v})
      *array = array->converted(dtype).converted(DType::kFloat64);
    core::reference::forward(call.problem());
    Call narrow = call;
    for (Array* array : {&narrow.q, &narrow.k, &narrow.v, &narrow.out})
      *array = array->converted(dtype);
    core::reference::forward(narrow.problem());
    expect_same(narrow.out, call.out.converted(dtype));
    expect_same(narrow.lse, call.lse);
  }
}

// Pages against the same keys laid out densely, with a table that names pages in any order.
TEST(ReferenceOptions, PagesAreTheDenseKeys) {
  Call paged = call_with(kPages, 8);
  const std::int64_t page_size = paged.k.shape()[1], columns = paged.block_table.shape()[1];
  Call dense = paged;
  dense.block_table = Array();
  lay_out(dense, paged.q.shape(),
          {paged.scalars.batch, columns * page_size, paged.k.shape()[2], paged.k.shape()[3]}, 8);
  const auto gather = [&](const Array& from, Array& to) {
    to.fill([&](const Index4& i) {
      const auto page = std::int64_t(paged.block_table.at(i[0], i[1] / page_size));
      return from.at(page, i[1] % page_size, i[2], i[3]);
    });
  };
  gather(paged.k, dense.k);
  gather(paged.v, dense.v);
  core::reference::forward(paged.problem());
  core::reference::forward(dense.problem());
  expect_same(paged.out, dense.out);
  expect_same(paged.lse, dense.lse);
}

// Keys cut in two, the second part starting from the state of the first.
TEST(ReferenceOptions, AStateContinuesACall) {
  for (std::int64_t cut = 0; cut <= 6; ++cut) {
    const Call whole = plain_call({}, 5);
    core::reference::forward(whole.problem());
    Call first = whole, second = whole;
    first.kv_lengths = integers({cut, cut});
    core::reference::forward(first.problem());
    second.kv_starts = integers({cut, cut});
    second.state_out = first.out;
    second.state_lse = first.lse;
    core::reference::forward(second.problem());
    expect_close(second.out, whole.out);
    expect_close(second.lse, whole.lse);
  }
}

}  // namespace
}  // namespace tessera::test
