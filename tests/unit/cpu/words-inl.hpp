// The row of words.hpp of one target, compiled once per target.
#if defined(TESSERA_TESTS_WORDS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TESTS_WORDS_INL_HPP
#undef TESSERA_TESTS_WORDS_INL_HPP
#else
#define TESSERA_TESTS_WORDS_INL_HPP
#endif

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/scores-inl.hpp"
#include "unit/cpu/words.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::test::HWY_NAMESPACE {
namespace in = cpu::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

using in::d;
using in::N;
using in::V;

constexpr const char* kName = HWY_TARGET == HWY_AVX3   ? "avx512"
                              : HWY_TARGET == HWY_AVX2 ? "avx2"
                              : HWY_TARGET == HWY_SSE4 ? "sse4"
                              : HWY_TARGET == HWY_NEON ? "neon"
                              : HWY_TARGET == HWY_WASM ? "wasm"
                                                       : "scalar";

// Kernels want aligned strips; tests pass vectors.
struct Aligned {
  explicit Aligned(std::int64_t n) : memory(std::size_t(n) + 16) {}
  float* data() {
    void* p = memory.data();
    std::size_t space = memory.size() * sizeof(float);
    return static_cast<float*>(std::align(64, space - 64, p, space));
  }
  std::vector<float> memory;
};

inline void exp2(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += N) {
    HWY_ALIGN float lanes[N] = {};
    std::copy_n(x + i, std::min<std::int64_t>(N, n - i), lanes);
    hn::Store(in::exp2(hn::Load(d, lanes)), d, lanes);
    std::copy_n(lanes, std::min<std::int64_t>(N, n - i), x + i);
  }
}

inline void tanh(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += N) {
    HWY_ALIGN float lanes[N] = {};
    std::copy_n(x + i, std::min<std::int64_t>(N, n - i), lanes);
    hn::Store(in::tanh(hn::Load(d, lanes)), d, lanes);
    std::copy_n(lanes, std::min<std::int64_t>(N, n - i), x + i);
  }
}

template <int kHalves>
void multiply(float* s, const float* const* k, const float* q, std::int64_t dim) {
  Aligned queries(dim * in::kStrip);
  std::copy_n(q, dim * in::kStrip, queries.data());
  const float* keys[in::kKeyTile];
  std::copy_n(k, in::kKeyTile, keys);
  V tile[in::kKeyTile][2];
  if (dim <= in::kLongestChain)
    in::multiply_transposed<kHalves>(tile, keys, queries.data(), dim);
  else
    in::multiply_long<kHalves>(tile, keys, queries.data(), dim, in::kLongestChain);
  for (int j = 0; j < in::kKeyTile; ++j)
    for (int half = 0; half < kHalves; ++half)
      hn::StoreU(tile[j][half], d, s + j * in::kStrip + half * N);
}

inline void multiply_transposed(int halves, float* s, const float* const* k, const float* q,
                                std::int64_t dim) {
  halves == 1 ? multiply<1>(s, k, q, dim) : multiply<2>(s, k, q, dim);
}

inline int row_tile_begin(int tile) { return in::row_tile_begin(tile); }

template <int kTile = 0>
void accumulate(int tile, float* o, const float* alpha, const float* p,
                const Words::Values& values) {
  constexpr int kRows = in::row_tile_begin(kTile + 1) - in::row_tile_begin(kTile);
  if (tile != kTile) {
    if constexpr (kTile + 1 < in::kRowTiles) accumulate<kTile + 1>(tile, o, alpha, p, values);
    return;
  }
  Aligned sums(kRows * in::kPanel);
  std::copy_n(o, kRows * in::kPanel, sums.data());
  in::accumulate<kRows>(sums.data(), alpha, p, in::ValueRows{values.v, values.stride, values.keys});
  std::copy_n(sums.data(), kRows * in::kPanel, o);
}

inline void hide_outside(float* to, const float* x, float low, float high) {
  for (int half = 0; half < 2; ++half)
    hn::StoreU(in::hide_unless(in::lanes_within(half, low, high), hn::LoadU(d, x + half * N)), d,
               to + half * N);
}

inline void load(float* to, const core::Tensor& t, void* at, std::int64_t n) {
  in::load(to, t, at, n);
}
inline void store(const core::Tensor& t, void* at, const float* from, std::int64_t n) {
  in::store(t, at, from, n);
}
inline void transpose_rows(float* to, const float* rows, std::int64_t stride, std::int64_t n) {
  in::transpose_rows(to, rows, stride, n);
}

inline Bytes answer(in::Seen seen) {
  return seen == in::Seen::kAll    ? Bytes::kAll
         : seen == in::Seen::kSome ? Bytes::kSome
                                   : Bytes::kNone;
}

inline Bytes scan_bytes(const std::uint8_t* from, std::int64_t stride, std::int64_t n) {
  return answer(in::scan_bytes(from, stride, n));
}

inline std::vector<core::Range> find_runs(int halves, const float* s, core::Range keys) {
  Aligned scores(keys.size() * in::kStrip);
  std::copy_n(s, keys.size() * in::kStrip, scores.data());
  in::Runs runs;
  halves == 1 ? in::find_runs<1>(scores.data(), in::N, keys, runs)
              : in::find_runs<2>(scores.data(), in::kStrip, keys, runs);
  return {runs.run, runs.run + runs.size};
}

inline Bytes scan(const core::Problem& p, std::int64_t head, core::Range rows, core::Range keys) {
  Aligned scratch(in::Modifiers::scratch_floats(p));
  return answer(in::Modifiers(p, scratch.data()).scan(in::Head(p, head), rows, keys));
}

inline void modify(const core::Problem& p, std::int64_t head, core::Range rows, core::Range keys,
                   float* s) {
  Aligned scratch(in::Modifiers::scratch_floats(p)), scores(keys.size() * in::kStrip);
  const in::Modifiers modifiers(p, scratch.data());
  in::Seen seen = modifiers.scan(in::Head(p, head), rows, keys);
  if (seen == in::Seen::kNone)
    seen = in::Seen::kSome;  // a schedule skips such a block, or does this
  std::copy_n(s, keys.size() * in::kStrip, scores.data());
  if (rows.size() <= N)
    modifiers.apply<1>(in::Head(p, head), rows, keys, seen, scores.data());
  else
    modifiers.apply<2>(in::Head(p, head), rows, keys, seen, scores.data());
  std::copy_n(scores.data(), keys.size() * in::kStrip, s);
}

inline void pack(const core::Problem& p, plan::Packing packing,
                 const std::vector<Words::Wanted>& wanted, const Words::Visit& visit) {
  const std::int64_t slots =
      packing == plan::Packing::kHead ? in::divide_up(p.keys, in::kBlock) : 1;
  Aligned memory(slots * (in::kBlock * (p.dim + in::padded(p.value_dim)) + 2));
  plan::Plan plan;
  plan.packing = packing;
  plan.longest_keys = p.keys;
  in::Packer packer(p, plan, memory.data());
  for (const Words::Wanted& one : wanted) {
    const in::KeyBlock block = packer(p, p.sequence(one.batch), one.kv_head, one.keys);
    for (std::int64_t j = block.keys.begin; j < block.keys.end; ++j)
      visit(one, j, {block.key(j), [&](std::int64_t c) { return block.value(j, c); }});
  }
}

inline Words words() {
  return {.name = kName,
          .lanes = N,
          .strip = in::kStrip,
          .panel = in::kPanel,
          .key_tile = in::kKeyTile,
          .row_tiles = in::kRowTiles,
          .together = in::kTogether,
          .exp2 = exp2,
          .tanh = tanh,
          .multiply_transposed = multiply_transposed,
          .row_tile_begin = row_tile_begin,
          .accumulate = accumulate<>,
          .hide_outside = hide_outside,
          .load = load,
          .store = store,
          .transpose_rows = transpose_rows,
          .scan_bytes = scan_bytes,
          .find_runs = find_runs,
          .scan = scan,
          .modify = modify,
          .pack = pack};
}

[[maybe_unused]] const bool kListed = (all_words().push_back(words()), true);

}  // namespace tessera::test::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
