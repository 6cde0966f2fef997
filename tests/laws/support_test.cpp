// Tests of the tests: a planted error must be seen, and the generator must reach every corner.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "support/law.hpp"
#include "support/naive.hpp"

namespace tessera::test {
namespace {

const Case kCase{
    .batch = 2, .queries = 33, .keys = 40, .heads = 4, .kv_heads = 2, .dim = 16, .value_dim = 8};

// The definition itself as a result: in double, so that errors can be planted exactly.
struct Planted {
  Inputs inputs;
  Outputs definition, result;

  explicit Planted(DType dtype) : inputs(kCase), definition(kCase), result(kCase) {
    inputs = inputs.in(dtype);
    definition = result = define(inputs);
  }
  testing::AssertionResult seen() const {
    return agree(result, definition, inputs, reference())
               ? testing::AssertionFailure() << "the planted error was not seen"
               : testing::AssertionSuccess();
  }
  double bound() const {
    return core::bound(inputs.of.dtype, kCase.keys, score_size(inputs, definition));
  }
};

std::string dtype_name(const testing::TestParamInfo<DType>& of) {
  return std::string(core::name_of(of.param));
}

class Compare : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Of, Compare, testing::ValuesIn(kFloats), dtype_name);

TEST_P(Compare, accepts_the_definition_and_half_the_bound) {
  Planted p(GetParam());
  EXPECT_FALSE(p.seen());
  const double factor = 1 + 0.5 * p.bound();
  p.result.out.fill(
      [&](const Index4& i) { return factor * p.definition.out.at(i[0], i[1], i[2], i[3]); });
  EXPECT_FALSE(p.seen());
}

TEST_P(Compare, sees_an_output_off_by_twice_the_bound) {
  Planted p(GetParam());
  const double factor = 1 + 2 * p.bound();
  p.result.out.fill(
      [&](const Index4& i) { return factor * p.definition.out.at(i[0], i[1], i[2], i[3]); });
  EXPECT_TRUE(p.seen());
}

TEST_P(Compare, sees_two_rows_swapped) {
  Planted p(GetParam());
  for (std::int64_t d = 0; d < kCase.value_dim; ++d) {
    p.result.out.set({1, 4, 2, d}, p.definition.out.at(1, 5, 2, d));
    p.result.out.set({1, 5, 2, d}, p.definition.out.at(1, 4, 2, d));
  }
  EXPECT_TRUE(p.seen());
}

TEST_P(Compare, sees_one_element_that_the_norm_does_not_see) {
  Planted p(GetParam());
  double sum = 0;
  for (const double x : values(p.definition.out)) sum += x * x;
  const double norm = std::sqrt(sum);
  const double planted = p.definition.out.at(0, 20, 1, 3) + 0.9 * p.bound() * norm;
  p.result.out.set({0, 20, 1, 3}, planted);
  EXPECT_TRUE(p.seen());
}

TEST_P(Compare, sees_an_lse_off_by_twice_its_bound) {
  Planted p(GetParam());
  const double lse = p.definition.lse.at(0, 3, 7);
  const double bound = core::lse_bound(kCase.keys, score_size(p.inputs, p.definition));
  p.result.lse.set({0, 3, 7, 0}, lse + 2 * bound * std::max(1., std::abs(lse)));
  EXPECT_TRUE(p.seen());
}

TEST_P(Compare, sees_nan_infinity_and_memory_that_was_not_written) {
  for (const double bad : {double(NAN), double(INFINITY)}) {
    Planted p(GetParam());
    p.result.out.set({0, 0, 0, 0}, bad);
    EXPECT_TRUE(p.seen());
  }
  Planted p(GetParam());
  p.result.lse.poison();
  EXPECT_TRUE(p.seen());
}

TEST_P(Compare, names_the_place_both_values_and_the_command) {
  Planted p(GetParam());
  p.result.out.set({1, 4, 2, 3}, 1234.5);
  const auto result = agree(p.result, p.definition, p.inputs, reference());
  const std::string text = result.message();
  for (const char* part :
       {"out[1, 4, 2, 3] = 1234.5", "the definition", "bound",
        "tessera verify --shape 2,33,40,4,2,16,8 --seed 1", "--backend reference"})
    EXPECT_NE(text.find(part), text.npos) << text;
}

TEST(CompareBits, sees_the_last_bit_and_the_sign_of_zero) {
  Array a(DType::kFloat32, {1, 1, 1, 2}), b = a;
  a.set({}, 1);
  b.set({}, 1 + 0x1p-23);
  EXPECT_FALSE(same_bits(a, b));
  b.set({}, 1);
  EXPECT_TRUE(same_bits(a, b));
  a.set({}, 0.);
  b.set({}, -0.);
  EXPECT_FALSE(same_bits(a, b));
}

TEST(ArrayLayout, holds_the_same_numbers_in_every_layout) {
  const Array dense = Inputs(kCase).q;
  std::set<Index4> strides;
  for (const Layout layout : kLayouts) {
    const Array a = dense.converted(DType::kFloat32, layout);
    strides.insert(a.tensor().stride);
    if (layout != Layout::kSharedByHeads) {
      EXPECT_TRUE(same_bits(a, dense)) << name_of(layout);
    }
    EXPECT_TRUE(a.surroundings_intact()) << name_of(layout);
  }
  EXPECT_EQ(strides.size(), std::size(kLayouts));
}

TEST(ArrayLayout, sees_a_write_beside_its_elements) {
  for (const Layout layout : {Layout::kDense, Layout::kPadded, Layout::kSpread}) {
    Array a(DType::kFloat32, {2, 3, 4, 5}, layout);
    const core::Tensor t = a.tensor();
    *(t.at(1, 2, 3, 4) + sizeof(float)) = std::byte{0};
    EXPECT_FALSE(a.surroundings_intact()) << name_of(layout);
  }
}

// The yardstick is itself right, for every option, within what its precision can give.
TEST(StandardAttention, agrees_with_the_definition) {
  Dice dice(test_seed());
  for (int n = 0; n < 60; ++n) {
    Case c = random_case(dice, {.work = 100'000});
    c.dtype = DType::kFloat32;
    if (c.bias == BiasKind::kLowest) c.bias = BiasKind::kHoles;
    const Inputs in(c);
    const core::Deviation off = deviation(standard_attention(in), define(in).out);
    EXPECT_LE(off.largest, 1e-4) << reference().command(c);
  }
}

// ---- The generator ----

struct Trait {
  const char* name;
  std::function<bool(const Case&)> has;
};
const std::vector<Trait> kTraits{
    {"float16", [](const Case& c) { return c.dtype == DType::kFloat16; }},
    {"bfloat16", [](const Case& c) { return c.dtype == DType::kBfloat16; }},
    {"grouped heads", [](const Case& c) { return c.kv_heads > 1 && c.group() > 1; }},
    {"Dv != D", [](const Case& c) { return c.dim != c.value_dim; }},
    {"strides", [](const Case& c) { return c.k_layout != Layout::kDense; }},
    {"left", [](const Case& c) { return c.left != TESSERA_UNBOUNDED; }},
    {"right", [](const Case& c) { return c.right != TESSERA_UNBOUNDED; }},
    {"bottom-right", [](const Case& c) { return c.align == TESSERA_ALIGN_BOTTOM_RIGHT; }},
    {"offsets", [](const Case& c) { return c.align == TESSERA_ALIGN_OFFSETS; }},
    {"mask", [](const Case& c) { return c.mask != MaskKind::kNone; }},
    {"broadcast mask", [](const Case& c) { return c.mask_spans.by_stride && !c.mask_spans.of[2]; }},
    {"bias", [](const Case& c) { return c.bias != BiasKind::kNone; }},
    {"16-bit bias", [](const Case& c) { return core::size_of(c.bias_dtype) == 2; }},
    {"alibi", [](const Case& c) { return c.alibi; }},
    {"softcap", [](const Case& c) { return c.softcap != 0; }},
    {"scale 0", [](const Case& c) { return c.scale == 0; }},
    {"sink", [](const Case& c) { return c.sink; }},
    {"lengths", [](const Case& c) { return !c.kv_lengths.empty(); }},
    {"starts", [](const Case& c) { return !c.kv_starts.empty(); }},
    {"no lse", [](const Case& c) { return !c.lse; }},
};

// What random_call adds; the first three exclude each other.
const std::vector<Trait> kLayoutTraits{
    {"packed keys", [](const Case& c) { return !c.cu_k.empty(); }},
    {"pages", [](const Case& c) { return c.page_size != 0; }},
    {"cache rows", [](const Case& c) { return !c.cache_rows.empty(); }},
    {"packed queries", [](const Case& c) { return !c.cu_q.empty(); }},
    {"used queries", [](const Case& c) { return !c.used_q.empty(); }},
    {"used keys", [](const Case& c) { return !c.used_k.empty(); }},
    {"spare rows", [](const Case& c) { return c.spare_rows != 0; }},
    {"dropout", [](const Case& c) { return c.dropout != 0; }},
    {"state", [](const Case& c) { return c.state; }},
    {"out in float32", [](const Case& c) { return c.wide_out && c.dtype != DType::kFloat32; }},
};

TEST(RandomCase, combines_every_option_with_every_other) {
  Dice dice(test_seed());
  std::vector<Case> cases;
  for (int n = 0; n < 6000; ++n) cases.push_back(random_case(dice));
  for (const Trait& a : kTraits)
    for (const Trait& b : kTraits) {
      const bool exclusive =
          (a.name == std::string("bottom-right") && b.name == std::string("offsets")) ||
          (b.name == std::string("bottom-right") && a.name == std::string("offsets")) ||
          (a.name == std::string("float16") && b.name == std::string("bfloat16")) ||
          (b.name == std::string("float16") && a.name == std::string("bfloat16"));
      if (exclusive) continue;
      EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                              [&](const Case& c) { return a.has(c) && b.has(c); }))
          << a.name << " with " << b.name;
    }
}

TEST(RandomCall, combines_every_layout_with_every_option) {
  Dice dice(test_seed());
  std::vector<Case> cases;
  for (int n = 0; n < 12000; ++n) cases.push_back(random_call(dice));
  for (const Trait& layout : kLayoutTraits)
    for (const Trait& option : kTraits)
      EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                              [&](const Case& c) { return layout.has(c) && option.has(c); }))
          << layout.name << " with " << option.name;
  for (const auto& [a, b] : {std::pair{"packed queries", "packed keys"},
                             {"packed queries", "pages"},
                             {"used queries", "used keys"},
                             {"packed queries", "dropout"},
                             {"packed queries", "state"},
                             {"pages", "state"},
                             {"dropout", "state"},
                             {"out in float32", "state"}}) {
    const auto has = [](const Case& c, const std::string& name) {
      for (const Trait& trait : kLayoutTraits)
        if (trait.name == name) return trait.has(c);
      return false;
    };
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const Case& c) { return has(c, a) && has(c, b); }))
        << a << " with " << b;
  }
}

TEST(RandomCase, reaches_sizes_of_zero_one_and_tile_edges) {
  Dice dice(test_seed());
  std::set<std::int64_t> queries, keys, batches, heads, dims;
  for (int n = 0; n < 6000; ++n) {
    const Case c = random_case(dice);
    queries.insert(c.queries), keys.insert(c.keys), batches.insert(c.batch), heads.insert(c.heads);
    dims.insert(c.value_dim);
    EXPECT_LE(c.batch * c.heads * c.queries * c.keys * (c.dim + c.value_dim), Limits{}.work);
  }
  for (const std::int64_t n : {0, 1, 31, 32, 33, 63, 64, 65}) EXPECT_TRUE(queries.contains(n)) << n;
  for (const std::int64_t n : {0, 1, 95, 96, 97, 192, 193}) EXPECT_TRUE(keys.contains(n)) << n;
  for (const std::int64_t n : {1, 15, 16, 17, 31, 33, 129}) EXPECT_TRUE(dims.contains(n)) << n;
  EXPECT_TRUE(batches.contains(0) && heads.contains(0));
}

TEST(RandomCase, gives_the_same_cases_for_the_same_seed) {
  Dice a(7), b(7);
  for (int n = 0; n < 100; ++n)
    EXPECT_EQ(command_line(random_case(a)), command_line(random_case(b)));
}

TEST(CommandLine, says_every_option_that_the_program_has) {
  Case c = kCase;
  c.dtype = DType::kBfloat16;
  c.seed = 7;
  c.left = 5;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  c.scale = 0.5f;
  c.softcap = 30;
  c.mask = MaskKind::kRandom;
  c.mask_spans = {{true, false, true, true}};
  c.alibi = c.sink = true;
  c.kv_lengths = {3, 40};
  c.kv_starts = {1, 2};
  EXPECT_EQ(command_line(c),
            "tessera verify --shape 2,33,40,4,2,16,8 --seed 7 --window 5,-1 --align bottom-right "
            "--mask random:2,1,33,40 --alibi random --sink random --kv-lengths 3,40 --kv-starts "
            "1,2 --scale 0.5 --softcap 30 --dtype bf16");
}

// Of packed sequences the shape counts all rows.
TEST(CommandLine, says_how_sequences_lie) {
  Case packed = kCase;
  packed.cu_q = {0, 33, 40};
  packed.cu_k = {0, 20, 60};
  packed.spare_rows = 2;
  EXPECT_EQ(command_line(packed),
            "tessera verify --shape 2,42,62,4,2,16,8 --seed 1 --cu-seqlens-q 0,33,40 "
            "--cu-seqlens-k 0,20,60");
  Case paged = kCase;
  paged.page_size = 16;
  paged.kv_lengths = {3, 40};
  EXPECT_EQ(command_line(paged),
            "tessera verify --shape 2,33,40,4,2,16,8 --seed 1 --kv-lengths 3,40 --page-size 16");
}

TEST(CommandLine, says_beside_the_command_what_the_program_has_no_option_for) {
  Case c = kCase;
  c.v_layout = Layout::kReversed;
  c.cache_rows = {1, 3};
  c.dropout = 0.5;
  c.dropout_offset = 9;
  c.wide_out = true;
  EXPECT_EQ(command_line(c),
            "tessera verify --shape 2,33,40,4,2,16,8 --seed 1 --cache-batch-idx 1,3 --dropout 0.5 "
            "--dropout-seed 0 --dropout-offset 9  # and v reversed, out in float32");
}

}  // namespace
}  // namespace tessera::test
