// The backward pass on AMX-BF16: the layouts of BackwardPairs are those of its tiles, 16 rows of 16
// pairs. dQ is summed transposed, dQ^T += K^T dS^T, since it is dS^T whose keys lie in pairs.
#if defined(TESSERA_CPU_BACKWARD_AMX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_BACKWARD_AMX_INL_HPP
#undef TESSERA_CPU_BACKWARD_AMX_INL_HPP
#else
#define TESSERA_CPU_BACKWARD_AMX_INL_HPP
#endif

#include "cpu/amx-inl.hpp"
#include "cpu/backward_pairs-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Rows of A that lie `row` bytes apart, with the terms of the sum side by side; and pairs of terms
// of B that lie so, with the columns side by side.
HWY_INLINE TileOperand left_rows(const core::Bfloat16* at, std::int64_t row) {
  return {at, row, kTile * row, kTileBytes};
}
HWY_INLINE TileOperand right_pairs(const float* at, std::int64_t row) {
  return {at, row, kTileBytes, kTile * row};
}

template <class Words> struct BackwardTiles : BackwardPairs {
  static constexpr int kKeyGroup = int(kTileKeys);
  static_assert(kStrip == 2 * kTile);

  using Session = typename Words::Session;

  // As pairs, but columns of whole tiles.
  static HWY_NOINLINE void pack_queries(Queries& t, const BackwardCall& c, const Head& head,
                                        Range rows, float* row) {
    pack_pairs(t, c, head, rows, {row, t.q.stride / 2, t.d_out.stride / 2});
  }

  // K [kBlock][dim / 2] pairs, then K^T [dim][kBlock]; V [kBlock][value_dim / 2] pairs. Keys up to
  // a whole group are zeros.
  static HWY_NOINLINE void pack_keys(Keys& t, const Problem& p, const Head& head, Range range) {
    copy_keys(t, p, head, range);
    const std::int64_t padded_keys = divide_up(range.size(), kKeyGroup) * kKeyGroup;
    for (const Matrix& m : {t.k, t.v})
      std::fill_n(as_bfloat16(m.data) + range.size() * m.stride,
                  (padded_keys - range.size()) * m.stride, core::Bfloat16{});
    const core::Bfloat16* from = as_bfloat16(t.k.data);
    core::Bfloat16* const to = as_bfloat16(key_pairs(t));
    for (std::int64_t j = 0; j < padded_keys; ++j, from += t.k.stride)
      for (std::int64_t i = 0; i < t.k.stride; ++i) to[i * kBlock + j] = from[i];
  }

  // S^T and dP^T of a strip, before any tile of them is looked at.
  static HWY_INLINE void prepare(const BackStrip& t, BackwardScratch& w, bool d_scores) {
    const Range keys = {t.visible.begin - w.keys.range.begin, t.visible.end - w.keys.range.begin};
    const auto multiply = [&](const Matrix& rows, const float* columns, float* to) {
      const std::int64_t steps = rows.stride / 2;
      columns += t.first * steps;
      for (std::int64_t key = keys.begin; key < keys.end;
           key += kKeyGroup, to += kKeyGroup * kStrip)
        multiply_tiles<Words, 2, false>(
            {left_rows(as_bfloat16(rows.data) + key * rows.stride, 2 * rows.stride),
             of_strip(columns), to, kStripBytes, steps / kTile});
    };
    multiply(w.keys.k, w.queries.q_columns, w.block.p + kPairsOfBlock);
    if (d_scores) multiply(w.keys.v, w.queries.d_out_columns, w.block.dp);
  }

  static HWY_INLINE void load_tile(V (&x)[kKeyTile][2], const float* from) {
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) x[j][half] = hn::Load(d, from + j * kStrip + half * N);
  }
  // Where the tile of `key` is in what prepare() left; its weights replace its scores.
  static HWY_INLINE float* prepared(float* x, const BackStrip& t, std::int64_t key) {
    return x + (key - t.visible.begin) * kStrip;
  }
  static HWY_INLINE void scores(V (&s)[kKeyTile][2], const BackStrip& t, const BackwardScratch& w,
                                std::int64_t key) {
    load_tile(s, prepared(w.block.p + kPairsOfBlock, t, key));
  }
  static HWY_INLINE void d_weights(V (&dp)[kKeyTile][2], const BackStrip& t,
                                   const BackwardScratch& w, std::int64_t key) {
    load_tile(dp, prepared(w.block.dp, t, key));
  }
  static HWY_INLINE void put_weights(const BackStrip& t, BackwardScratch& w, std::int64_t key,
                                     const V (&x)[kKeyTile][2]) {
    store_rows(w.block.p, t, key - w.keys.range.begin, x);
    float* const tile = prepared(w.block.p + kPairsOfBlock, t, key);
    for (int j = 0; j < kKeyTile; ++j)
      for (int half = 0; half < 2; ++half) hn::Store(x[j][half], d, tile + j * kStrip + half * N);
  }
  static HWY_INLINE const float* weights(const BackStrip& t, const BackwardScratch& w,
                                         std::int64_t key) {
    return prepared(w.block.p + kPairsOfBlock, t, key);
  }

  // dV += P^T dO and dK += dS^T Q, whole strips of queries at a time.
  static HWY_INLINE void add_tile(const Matrix& to, const float* w, const Matrix& rows,
                                  std::int64_t key, Range some) {
    const std::int64_t first = some.begin / kStrip, steps = divide_up(some.end, kStrip) - first;
    const core::Bfloat16* const weights =
        reinterpret_cast<const core::Bfloat16*>(w) + key * kSpan + first * kStrip;
    for (std::int64_t c = 0; c < to.stride; c += kPanel)
      multiply_tiles<Words, 2, true>({left_rows(weights, 2 * kSpan),
                                      right_pairs(rows.row(first * kTile) + c, 4 * rows.stride),
                                      to.row(key) + c, 4 * to.stride, steps});
  }

  // dQ^T += K^T dS^T of one strip: dq is [strips][dim][kStrip] until it is collected.
  static HWY_INLINE void add_to_queries(BackwardScratch& w, const Step& t, int column) {
    const Range rows = Range{t.span + column, t.span + column + kStrip} & t.live;
    const Range keys = t.head.sequence.band.seen_by_any(rows) & t.block;
    if (rows.empty() || keys.empty()) return;
    const std::int64_t first = (keys.begin - t.block.begin) / kKeyGroup;
    const std::int64_t steps = divide_up(keys.end - t.block.begin, kKeyGroup) - first;
    const std::int64_t dim = w.queries.dq.stride;
    float* const dq = w.queries.dq.data + (t.span + column - w.queries.rows.begin) * dim;
    const core::Bfloat16* const k = as_bfloat16(key_pairs(w.keys)) + first * kKeyGroup;
    const float* const ds = w.block.ds + kPairsOfBlock + first * kTile * kSpan + column;
    for (std::int64_t i = 0; i < dim; i += kKeyGroup)
      multiply_tiles<Words, 2, true>({left_rows(k + i * kBlock, 2 * kBlock),
                                      right_pairs(ds, 4 * kSpan), dq + i * kStrip, kStripBytes,
                                      steps});
  }

  // By rows, in the place of Q, which nobody needs any more.
  static HWY_NOINLINE const Matrix& collect_queries(BackwardScratch& w) {
    const Matrix &from = w.queries.dq, &to = w.queries.q;
    for (std::int64_t r = 0; r < w.queries.rows.size(); ++r) {
      const float* const column = from.data + r / kStrip * kStrip * from.stride + r % kStrip;
      for (std::int64_t i = 0; i < from.stride; ++i) to.row(r)[i] = column[i * kStrip];
    }
    return to;
  }
};

HWY_NOINLINE inline void backward_amx(Call& call, int worker) {
  call.plan.arithmetic == plan::Arithmetic::kTiles
      ? backward<BackwardTiles<amx::Registers>>(call, worker)
      : backward<BackwardFloat32>(call, worker);
}

// The row of AMX in the table of targets, both passes.
inline Target amx_target(const char* name, bool (*present)()) {
  Target row = tiles_target(name, present);
  row.backward = backward_amx;
  return row;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
