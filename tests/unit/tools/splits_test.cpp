// What the call of one range of keys says.
#include "tools/tessera/splits.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::tool {
namespace {

std::vector<std::int64_t> numbers(const tessera_tensor& list) {
  EXPECT_EQ(list.dtype, std::uint32_t{TESSERA_INT64});
  const auto* first = static_cast<const std::int64_t*>(list.data);
  return {first, first + list.shape[0]};
}

using List = std::vector<std::int64_t>;

struct Cut {
  AttentionOptions options;
  Inputs inputs;
  Splits splits;

  static AttentionOptions with(AttentionOptions o, std::int64_t count) {
    o.splits = count;
    return o;
  }
  static Source source() {
    Source s;
    s.shape = Shape{2, 3, 10, 2, 1, 4, 4};
    return s;
  }
  Cut(const AttentionOptions& o, std::int64_t count)
      : options(with(o, count)), inputs(load_inputs(source(), options)), splits(inputs, options) {}
};

TEST(Splits, ShareTheKeysOutEvenly) {
  AttentionOptions options;
  options.kv_starts = "1,4";
  options.kv_lengths = "8,6";
  Cut cut(options, 3);
  const List bounds[] = {{1, 4}, {4, 5}, {6, 6}, {8, 6}};  // 3 + 2 + 2 keys, and 1 + 1 + 0
  ASSERT_EQ(cut.splits.count(), 3);
  for (std::int64_t n = 0; n < 3; ++n) {
    EXPECT_EQ(numbers(cut.splits.part(n).kv_starts), bounds[n]);
    EXPECT_EQ(numbers(cut.splits.part(n).kv_lengths), bounds[n + 1]);
  }
}

TEST(Splits, LeaveTheDiagonalWhereItWas) {
  AttentionOptions options;
  options.causal = true;
  options.kv_lengths = "8,2";
  const std::pair<Alignment, List> cases[] = {
      {{TESSERA_ALIGN_TOP_LEFT, 0}, {0, 0}},
      {{TESSERA_ALIGN_BOTTOM_RIGHT, 0}, {5, -1}},
      {{TESSERA_ALIGN_OFFSET, -7}, {-7, -7}},
  };
  for (const auto& [align, diagonals] : cases) {
    options.align = align;
    Cut cut(options, 2);
    for (std::int64_t n = 0; n < 2; ++n) {
      const tessera_attention_desc part = cut.splits.part(n);
      EXPECT_EQ(part.align, std::uint32_t{TESSERA_ALIGN_OFFSETS});
      EXPECT_EQ(part.offset, 0);
      EXPECT_EQ(numbers(part.offsets), diagonals);
      EXPECT_EQ(part.right, 0);
    }
  }
}

TEST(Splits, CountTheSinkOnce) {
  AttentionOptions options;
  options.sink = "random";
  options.mask = "random";
  Cut cut(options, 2);
  EXPECT_NE(cut.splits.part(0).sink.data, nullptr);
  EXPECT_EQ(cut.splits.part(1).sink.data, nullptr);
  EXPECT_EQ(cut.splits.part(1).mask.data, cut.splits.part(0).mask.data);
}

}  // namespace
}  // namespace tessera::tool
