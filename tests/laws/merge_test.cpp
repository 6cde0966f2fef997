// The algebra of states, and caches that grow, on everything that computes.
#include <algorithm>
#include <vector>

#include "support/law.hpp"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

class Merging : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Merging, testing::ValuesIn(names_with_emulator()), parameter_name);

// Without what depends on the number of keys, or counts once for all of them.
Case case_for_parts(Dice& dice) {
  Case c = random_case(dice, {.work = 300'000});
  c.dtype = DType::kFloat32;
  c.sink = false;
  c.lse = true;
  if (c.align == TESSERA_ALIGN_BOTTOM_RIGHT) {
    for (std::int64_t b = 0; b < c.batch; ++b) c.offsets.push_back(c.diagonal(b));
    c.align = c.batch == 0 ? TESSERA_ALIGN_TOP_LEFT : TESSERA_ALIGN_OFFSETS;
  }
  return c;
}

// The case with the keys of [cuts[part], cuts[part + 1]) alone.
Case part_of(const Case& c, const std::vector<std::int64_t>& cuts, std::size_t part) {
  Case result = c;
  result.kv_starts.clear();
  result.kv_lengths.clear();
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::int64_t end = std::min(c.end_of_keys(b), cuts[part + 1]);
    result.kv_lengths.push_back(end);
    result.kv_starts.push_back(std::min(end, std::max(c.first_key(b), cuts[part])));
  }
  return result;
}

Outputs merged(const Backend& on, const Case& c, const std::vector<Outputs>& parts) {
  std::vector<tessera_state> states;
  for (const Outputs& part : parts) states.push_back({part.out.abi(), part.lse.abi()});
  Outputs result(c);
  tessera_merge_desc desc = tessera_merge_desc_default();
  desc.states = states.data();
  desc.count = states.size();
  desc.out = result.out.abi();
  desc.lse = result.lse.abi();
  tessera_error error = tessera_error_default();
  EXPECT_EQ(tessera_merge(on.context, &desc, &error), TESSERA_OK) << error.message;
  return result;
}

TEST_P(Merging, any_partition_of_the_keys_gives_the_plain_result) {
  for_cases(4, case_for_parts, [](const Backend& on, Case c) {
    c.dtype = DType::kFloat32;
    Dice dice(c.seed);
    std::vector<std::int64_t> cuts{0, c.keys};
    for (std::int64_t n = dice.between(0, 4); n > 0; --n) cuts.push_back(dice.between(0, c.keys));
    std::sort(cuts.begin(), cuts.end());
    std::vector<Outputs> parts;
    for (std::size_t part = 0; part + 1 < cuts.size(); ++part)
      parts.push_back(run(on, Inputs(part_of(c, cuts, part))));
    EXPECT_TRUE(is_right(merged(on, c, parts), Inputs(c), on));
  });
}

// The rows [first, first + count) of each sequence, in a tensor of their own.
Array rows_of(const Array& a, std::int64_t first, std::int64_t count) {
  Array rows(a.dtype(), {a.shape()[0], count, a.shape()[2], a.shape()[3]});
  rows.fill([&](const Index4& i) { return a.at(i[0], first + i[1], i[2], i[3]); });
  return rows;
}

// Takes what lies behind the first `keys` keys away from the cache, and appends it again.
void append_rest(const Backend& on, Inputs& in, std::int64_t keys) {
  const std::int64_t count = in.of.keys - keys;
  const Array k = rows_of(in.k, keys, count), v = rows_of(in.v, keys, count);
  for (Array* cache : {&in.k, &in.v})
    cache->for_each([&](const Index4& i) {
      if (i[1] >= keys) cache->set(i, NAN);
    });
  Array lengths(DType::kInt32, {in.of.batch, 1, 1, 1});
  lengths.fill([&](const Index4&) { return double(keys); });
  tessera_append_desc desc = tessera_append_desc_default();
  desc.k = k.abi(), desc.v = v.abi();
  desc.k_cache = in.k.abi(), desc.v_cache = in.v.abi();
  desc.kv_lengths = lengths.abi();
  tessera_error error = tessera_error_default();
  EXPECT_EQ(tessera_append(on.context, &desc, &error), TESSERA_OK) << error.message;
}

TEST_P(Merging, append_then_attend_equals_attending_to_all_to_the_bit) {
  const auto make = [](Dice& dice) { return random_case(dice, {.work = 300'000}); };
  for_cases(4, make, [](const Backend& on, const Case& c) {
    if (c.k_layout == Layout::kSharedByHeads || c.v_layout == Layout::kSharedByHeads) return;
    const Inputs whole(c);
    Inputs grown = whole;
    append_rest(on, grown, c.keys / 3);
    EXPECT_TRUE(same_bits(run(on, grown), run(on, whole)));
  });
}

}  // namespace
}  // namespace tessera::test
