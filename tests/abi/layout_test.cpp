// The structs of the C interface lie in memory as they did in the first version, in C as in C++.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

#include "abi/layout.h"
#include "abi/layout_in_c.h"

namespace tessera::test {
namespace {

std::span<const layout_row> rows_in_c() {
  std::size_t rows = 0;
  const layout_row* first = layout_in_c(&rows);
  return {first, rows};
}

std::span<const constant_row> constants_as_c_sees_them() {
  std::size_t rows = 0;
  const constant_row* first = constants_in_c(&rows);
  return {first, rows};
}

void expect_pinned(std::span<const layout_row> rows) {
  ASSERT_GT(rows.size(), 70u);
  for (const layout_row& row : rows) {
    EXPECT_EQ(row.offset, row.pinned_offset) << row.name;
    EXPECT_EQ(row.size, row.pinned_size) << row.name;
  }
}

TEST(Layout, InCxx) { expect_pinned(kLayout); }
TEST(Layout, InC) { expect_pinned(rows_in_c()); }

TEST(Layout, Constants) {
  for (const constant_row& row : kConstants) EXPECT_EQ(row.value, row.pinned) << row.name;
  for (const constant_row& row : constants_as_c_sees_them())
    EXPECT_EQ(row.value, row.pinned) << row.name;
}

// Each field begins at or behind the end of the one before it, and the last ends with its struct
// but for padding: no field is missing in the table.
TEST(Layout, TheTableLeavesNoHole) {
  std::size_t end = 0, whole = 0;
  for (const layout_row& row : kLayout) {
    if (std::string(row.name).find('.') == std::string::npos) {
      EXPECT_LT(whole - end, 8u) << "before " << row.name;
      end = 0;
      whole = row.size;
    } else {
      EXPECT_GE(row.offset, end) << row.name;
      EXPECT_LT(row.offset - end, 8u) << row.name;
      end = row.offset + row.size;
    }
  }
  EXPECT_LT(whole - end, 8u);
}

TEST(Layout, DefaultsSayTheirSizeAndAskForNothing) {
  const tessera_attention_desc d = tessera_attention_desc_default();
  EXPECT_EQ(d.size, sizeof d);
  EXPECT_TRUE(std::isnan(d.scale));
  EXPECT_EQ(d.left, TESSERA_UNBOUNDED);
  EXPECT_EQ(d.state_lse.data, nullptr);
  const tessera_attention_backward_desc b = tessera_attention_backward_desc_default();
  EXPECT_EQ(b.size, sizeof b);
  EXPECT_EQ(b.forward, nullptr);
  EXPECT_EQ(b.d_sink.data, nullptr);
  EXPECT_EQ(tessera_context_config_default().size, sizeof(tessera_context_config));
  EXPECT_EQ(tessera_error_default().size, sizeof(tessera_error));
}

}  // namespace
}  // namespace tessera::test
