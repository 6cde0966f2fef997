// Public reports about packed sequences, pages, caches and merged states, each under its own name.
#include <algorithm>
#include <cmath>
#include <vector>

#include "support/law.hpp"
#include "unit/cpu/host.hpp"

namespace tessera::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class CacheRegression : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, CacheRegression, testing::ValuesIn(names_on_the_host()),
                         parameter_name);

// ---- States ----

// The states of parts that share no key, merged.
Outputs merged(const Backend& on, const std::vector<Outputs>& parts) {
  std::vector<tessera_state> states;
  for (const Outputs& part : parts) states.push_back({part.out.abi(), part.lse.abi()});
  Outputs all = parts.front();
  all.out.poison();
  all.lse.poison();
  tessera_merge_desc desc = tessera_merge_desc_default();
  desc.states = states.data();
  desc.count = states.size();
  desc.out = all.out.abi();
  desc.lse = all.lse.abi();
  tessera_error error = tessera_error_default();
  EXPECT_EQ(tessera_merge(on.context, &desc, &error), TESSERA_OK) << error.message;
  return all;
}

// Rows that see no key in either half, first as the backend says "empty", then as others do: +inf,
// and NaN in what nobody may look at.
TEST_P(CacheRegression, bug_vLLM_39148_two_empty_states_merge_to_an_empty_one) {
  Case c{.batch = 2, .queries = 5, .keys = 20, .heads = 2, .kv_heads = 1, .dim = 8, .value_dim = 8};
  c.dtype = DType::kFloat32;
  Inputs in(c);
  in.mask = Array(DType::kBool, {1, 1, c.queries, 1});
  in.mask.fill([](const Index4& i) { return double(i[2] % 2); });
  const auto half = [&](double begin, double end) {
    Inputs part = in;
    part.kv_starts = part.kv_lengths = Array(DType::kInt32, {c.batch, 1, 1, 1});
    part.kv_starts.fill([=](const Index4&) { return begin; });
    part.kv_lengths.fill([=](const Index4&) { return end; });
    return run(on(), part);
  };
  std::vector<Outputs> halves{half(0, 10), half(10, 20)};
  const Outputs ours = merged(on(), halves);
  halves[1].lse.for_each([&](const Index4& at) {
    if (halves[1].lse.at(at[0], at[1], at[2]) != -kInfinity) return;
    halves[1].lse.set(at, kInfinity);
    for (std::int64_t d = 0; d < c.value_dim; ++d) halves[1].out.set({at[0], at[2], at[1], d}, NAN);
  });
  EXPECT_TRUE(same_bits(merged(on(), halves), ours));
  ours.lse.for_each([&](const Index4& at) {
    const bool empty = at[2] % 2 == 0;
    EXPECT_EQ(ours.lse.at(at[0], at[1], at[2]) == -kInfinity, empty);
    EXPECT_EQ(ours.out.at(at[0], at[2], at[1], 3) == 0, empty);
  });
  EXPECT_TRUE(is_right(ours, in, on()));
}

// ---- Pages ----

TEST_P(CacheRegression, bug_FI_4452_lse_of_empty_rows_of_a_paged_prefill_is_minus_infinity) {
  Case c{.queries = 67, .keys = 20, .heads = 2, .kv_heads = 1, .dim = 16, .value_dim = 16};
  c.right = 0;
  c.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  c.page_size = 16;
  c.kv_lengths = {20};
  for_case(c, [](const Backend& on, const Case& of) {
    const Inputs in(of);
    const Outputs got = run(on, in);
    for (std::int64_t i = 0; i < of.queries; ++i) {
      EXPECT_EQ(got.lse.at(0, 1, i) == -kInfinity, i < 47) << i;
      if (i < 47) {
        EXPECT_EQ(got.out.at(0, i, 1, 3), 0);
      }
    }
    EXPECT_TRUE(is_right(got, in, on));
  });
}

// One query, a tile of 256, 16 keys: with q = 0 the answer is their mean, whatever the page size.
TEST_P(CacheRegression, bug_FI_3716_padding_of_a_page_is_not_in_the_denominator) {
  for (const std::int64_t page_size : {1, 16, 256}) {
    Case c{.batch = 2, .keys = 256, .heads = 4, .kv_heads = 2, .dim = 64, .value_dim = 64};
    c.page_size = page_size;
    c.kv_lengths = {16, 16};
    for_case(c, [](const Backend& on, const Case& of) {
      Inputs in = Inputs(of).with_unseen_memory_poisoned();
      in.q.fill([](const Index4&) { return 0.; });
      const Outputs got = run(on, in);
      double sum = 0;
      for (std::int64_t j = 0; j < 16; ++j) {
        const Place at = in.key_at(1, j);
        sum += in.v.at(at.batch, at.row, 1, 5);
      }
      EXPECT_NEAR(got.lse.at(1, 3, 0), std::log(16.), 3e-6);
      EXPECT_NEAR(got.out.at(1, 0, 3, 5), sum / 16, 3e-3);
    });
  }
}

// ---- Packed sequences ----

std::vector<std::int64_t> sums_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> sums{0};
  for (const std::int64_t n : lengths) sums.push_back(sums.back() + n);
  return sums;
}

// Two sequences of 698 and 61 tokens, padded to a multiple of 8, each cut into four: the keys of
// rank r are those of the quarter r, and the first tokens of padding may be on any rank.
TEST_P(CacheRegression, bug_TE_3331_ranks_that_hold_the_padding_at_the_end) {
  constexpr std::int64_t kRanks = 4;
  const std::vector<std::int64_t> real{698, 61}, padded{704, 64};
  Case c{.batch = 2, .queries = 704, .keys = 704, .heads = 2, .kv_heads = 1, .dim = 8};
  c.value_dim = 8;
  c.cu_q = c.cu_k = sums_of(padded);
  c.used_q = c.used_k = real;
  c.right = 0;
  c.align = TESSERA_ALIGN_TOP_LEFT;
  if (!on().does(c)) return;
  const Inputs all = Inputs(c).with_unseen_memory_poisoned();
  std::vector<Outputs> parts;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    Case own = c;
    own.used_k.clear();
    own.offsets.clear();
    own.align = TESSERA_ALIGN_OFFSETS;
    for (std::size_t b = 0; b < 2; ++b) {
      const std::int64_t quarter = padded[b] / kRanks;
      own.used_k.push_back(std::clamp<std::int64_t>(real[b] - rank * quarter, 0, quarter));
      own.offsets.push_back(-rank * quarter);
    }
    own.cu_k = sums_of({padded[0] / kRanks, padded[1] / kRanks});
    own.keys = padded[0] / kRanks;
    Inputs part(own);
    part.q = all.q;
    for (const auto& [to, from] : {std::pair{&part.k, &all.k}, {&part.v, &all.v}})
      to->fill([&, source = from](const Index4& i) {
        const std::int64_t b = i[1] < own.cu_k[1] ? 0 : 1;
        const std::int64_t j = i[1] - own.cu_k[std::size_t(b)];
        const std::int64_t quarter = padded[std::size_t(b)] / kRanks;
        return source->at(0, c.cu_k[std::size_t(b)] + rank * quarter + j, i[2], i[3]);
      });
    parts.push_back(run(on(2), part));
    EXPECT_TRUE(same_bits(run(on(2), part), parts.back())) << "another run";
  }
  const Outputs got = merged(on(), parts);
  EXPECT_TRUE(is_right(got, all, on(2)));
  for (const std::int64_t row : {698, 703, 704 + 61, 704 + 63}) EXPECT_EQ(got.out.at(0, row, 1), 0);
  EXPECT_NE(got.out.at(0, 697, 1), 0);
}

// Calls of one shape, one after the other, whose longest sequences differ.
Case boundaries(const std::vector<std::int64_t>& lengths) {
  Case c{.batch = std::int64_t(lengths.size()), .heads = 4, .kv_heads = 2, .dim = 16};
  c.value_dim = 16;
  c.cu_q = c.cu_k = sums_of(lengths);
  c.queries = c.keys = *std::max_element(lengths.begin(), lengths.end());
  c.right = 0;
  c.align = TESSERA_ALIGN_TOP_LEFT;
  return c;
}
const std::vector<std::int64_t> kLengths[] = {
    {100, 100, 100, 100}, {397, 1, 1, 1}, {0, 0, 400, 0}, {0, 133, 133, 134}, {100, 100, 100, 100}};

TEST_P(CacheRegression, bug_HF_45323_a_second_call_uses_its_own_lengths) {
  for (const auto& lengths : kLengths)
    for_case(boundaries(lengths), [](const Backend& on, const Case& c) {
      const Inputs in(c);
      EXPECT_TRUE(is_right(run(on, in), in, on));
    });
}

// Nothing is compiled for a length or kept for it: a hundred lengths take the memory of one.
TEST_P(CacheRegression, bug_FA_2635_nothing_is_kept_for_each_length) {
  if (!on().does(boundaries(kLengths[0]))) return;
  if (on().is_emulator()) GTEST_SKIP() << "the emulator takes nothing from a context";
  Host host;
  tessera_context_config config = config_of(GetParam(), 2);
  const cpu::Allocator lent = host.allocator();
  config.allocator = {lent.allocate, lent.release, lent.user};
  const Context context(config);
  run(context.as(GetParam()), Inputs(boundaries({400, 0})));
  const int before = host.allocations();
  for (std::int64_t n = 1; n <= 100; ++n)
    run(context.as(GetParam()), Inputs(boundaries({n, 400 - 4 * n})));
  EXPECT_EQ(host.allocations(), before);
}

// ---- Appending ----

// A full cache lies between others, in one block of memory.
struct FullCache {
  Array memory{DType::kFloat32, {4, 12, 2, 8}};
  Array fresh{DType::kFloat32, {1, 1, 2, 8}};
  Array lengths{DType::kInt32, {1, 1, 1, 1}};

  FullCache() {
    memory.fill([](const Index4& i) { return double(dense_index({4, 12, 2, 8}, i)); });
    fresh.fill([](const Index4&) { return -1.; });
  }
  // Keys lie in row `row` of the memory, values in the one after it.
  tessera_tensor cache(std::int64_t row, std::int64_t capacity) {
    tessera_tensor t = memory.abi();
    t.data = memory.where({row, 0, 0, 0});
    t.shape[0] = 1;
    t.shape[1] = capacity;
    return t;
  }
};

TEST_P(CacheRegression, bug_FA_638_appending_to_a_full_cache_is_refused) {
  FullCache full;
  const std::vector<std::byte> before = full.memory.elements();
  tessera_append_desc desc = tessera_append_desc_default();
  desc.k = desc.v = full.fresh.abi();
  desc.k_cache = full.cache(1, 10);
  desc.v_cache = full.cache(2, 10);
  desc.kv_lengths = full.lengths.abi();
  tessera_error error = tessera_error_default();
  const auto append_at = [&](double keys) {
    full.lengths.set({}, keys);
    return tessera_append(on().context, &desc, &error);
  };
  EXPECT_EQ(append_at(10), TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(error.message[0], 0);
  EXPECT_EQ(full.memory.elements(), before) << "wrote before it refused";
  EXPECT_EQ(append_at(9), TESSERA_OK) << error.message;
  EXPECT_EQ(full.memory.at(1, 9), -1);
  EXPECT_EQ(full.memory.at(2, 9), -1);
  EXPECT_EQ(full.memory.at(1, 10), double((12 + 10) * 16)) << "wrote behind the cache";
}

TEST_P(CacheRegression, bug_FA_638_appending_past_the_last_page_is_refused) {
  FullCache full;
  const std::vector<std::byte> before = full.memory.elements();
  Array table(DType::kInt32, {1, 2, 1, 1});
  table.fill([](const Index4& i) { return double(i[1]); });
  tessera_append_desc desc = tessera_append_desc_default();
  desc.k = desc.v = full.fresh.abi();
  desc.k_cache = full.memory.abi();
  desc.v_cache = full.memory.abi();
  desc.k_cache.shape[0] = desc.v_cache.shape[0] = 2;  // pages of 12; the values follow the keys
  desc.v_cache.data = full.memory.where({2, 0, 0, 0});
  desc.block_table = table.abi();
  full.lengths.set({}, 24);
  desc.kv_lengths = full.lengths.abi();
  EXPECT_EQ(tessera_append(on().context, &desc, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(full.memory.elements(), before) << "wrote before it refused";
  full.lengths.set({}, 23);
  EXPECT_EQ(tessera_append(on().context, &desc, nullptr), TESSERA_OK);
  EXPECT_EQ(full.memory.at(1, 11), -1);
  EXPECT_EQ(full.memory.at(3, 11), -1);
}

// ---- Types and strides ----

TEST_P(CacheRegression, bug_ik_llama_1616_types_are_never_mixed) {
  Case c{.queries = 3, .keys = 4, .dim = 8, .value_dim = 8};
  for_case(c, [](const Backend& on, const Case& of) {
    for (Array Inputs::* operand : {&Inputs::k, &Inputs::v})
      for (const DType other : kFloats) {
        if (other == of.dtype) continue;
        Inputs in(of);
        in.*operand = (in.*operand).converted(other);
        Outputs got(of);
        run(on, describe(in, got), got);
        EXPECT_EQ(got.status, TESSERA_INVALID_ARGUMENT);
        EXPECT_TRUE(same_bits(got.out, Outputs(of).out)) << "wrote before it refused";
      }
  });
}

TEST_P(CacheRegression, bug_comfy_kitchen_178_a_stride_that_is_never_used_is_no_reason_to_refuse) {
  const Case one{.keys = 9, .dim = 8, .value_dim = 8};
  for_case(one, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    Outputs got(c);
    tessera_attention_desc d = describe(in, got);
    for (tessera_tensor* t : {&d.q, &d.k, &d.v, &d.out, &d.lse})
      for (std::size_t axis = 0; axis < 3; ++axis)
        if (t->shape[axis] == 1) t->stride[axis] = INT64_MAX - 7;
    run(on, d, got);
    ASSERT_EQ(got.status, TESSERA_OK) << got.message;
    EXPECT_TRUE(same_bits(got, run(on, in)));
  });
}

}  // namespace
}  // namespace tessera::test
