#include "tools/tessera/bench_pairs.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace tessera::test {
namespace {

using tool::AttentionOptions;
using tool::Inputs;
using tool::Shape;

// The contract's sentence, pair by pair.
std::int64_t count_by_hand(const Inputs& in, const AttentionOptions& o, const Shape& s) {
  const tool::Window band = o.band();
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::int64_t length =
        in.kv_lengths.present() ? std::min(s.keys, in.kv_lengths.tensor.load_int(b)) : s.keys;
    std::int64_t offset = o.align.kind == TESSERA_ALIGN_OFFSET ? o.align.offset : 0;
    if (o.align.kind == TESSERA_ALIGN_BOTTOM_RIGHT) offset = length - s.queries;
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.queries; ++i)
        for (std::int64_t j = 0; j < length; ++j) {
          const __int128 diagonal = __int128(i) + offset;
          if (j < diagonal - band.left || j > diagonal + band.right) continue;
          if (in.mask.present()) {
            const core::Tensor& m = in.mask.tensor;
            if (m.load(b % m.shape[0], h % m.shape[1], i % m.shape[2], j % m.shape[3]) == 0)
              continue;
          }
          ++count;
        }
  }
  return count;
}

std::string pick(core::Draws& draws, std::initializer_list<const char*> texts) {
  return texts.begin()[draws.between(0, std::int64_t(texts.size()) - 1)];
}

AttentionOptions any_options(core::Draws& draws) {
  AttentionOptions o;
  o.causal = draws.chance(.4);
  if (draws.chance(.5))
    o.window = tool::Window{draws.between(0, 9), o.causal ? 0 : draws.between(0, 9)};
  if (draws.chance(.2)) o.window = tool::Window{};
  o.align.kind = std::uint32_t(draws.between(TESSERA_ALIGN_TOP_LEFT, TESSERA_ALIGN_OFFSET));
  if (o.align.kind == TESSERA_ALIGN_OFFSET) o.align.offset = draws.between(-20, 20);
  o.mask = pick(draws, {"", "random", "random:1,1,1,13", "random:2,1,11,13", "random:1,6,1,1"});
  o.kv_lengths = pick(draws, {"", "5,13", "0,1", "13,13"});
  return o;
}

TEST(VisiblePairs, AreThoseOfTheContract) {
  const Shape shape{
      .batch = 2, .queries = 11, .keys = 13, .heads = 6, .kv_heads = 2, .dim = 3, .value_dim = 5};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    core::Draws draws(seed);
    const AttentionOptions options = any_options(draws);
    tool::Source source;
    source.shape = shape;
    source.seed = seed;
    const Inputs inputs = load_inputs(source, options);
    const std::int64_t expected = count_by_hand(inputs, options, shape);
    EXPECT_EQ(visible_pairs(inputs, options), expected) << "seed " << seed;
    EXPECT_EQ(useful_flops(inputs, options, false), 16. * double(expected));  // 2 (3 + 5)
    EXPECT_EQ(useful_flops(inputs, options, true), 38. * double(expected));   // 2 (3 3 + 2 5)
  }
}

}  // namespace
}  // namespace tessera::test
