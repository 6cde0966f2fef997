// Few queries and many keys: bound by reading K and V, so each is read once, by all query heads of
// its key head together. The keys are split by the shape alone; every split leaves a state, and a
// second phase merges them in the order of the keys (Dao et al. 2023, "Flash-Decoding").
//
//   S tile   kRowTile rows x 4 keys     lanes are dimensions
//   O tile   kRowTile rows x 4 vectors  lanes are columns of V, a weight is a broadcast
//
// Blocks of keys begin at multiples of kDecodeBlock and a hidden pair weighs exactly 0, so the bits
// of a row depend neither on the rows beside it nor on how many there are.
#if defined(TESSERA_CPU_DECODE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_DECODE_INL_HPP
#undef TESSERA_CPU_DECODE_INL_HPP
#else
#define TESSERA_CPU_DECODE_INL_HPP
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cpu/decode_tiles-inl.hpp"
#include "cpu/forward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using plan::kDecodeRows;

// ---- Which rows and keys ----

// Where the rows of one key head of one sequence lie: row r is query r % queries of head
// r / queries of the group.
struct Group {
  std::int64_t b, kv_head;
  Sequence sequence;
  Range visible;  // keys that any row sees
  Range common;   // keys that each row sees

  Group(const Problem& p, std::int64_t index)
      : b(index / p.kv_heads),
        kv_head(index % p.kv_heads),
        sequence(p.sequence(b)),
        visible(sequence.band.seen_by_any({0, sequence.queries}) & sequence.keys),
        common(sequence.band.seen_by_all({0, sequence.queries}) & sequence.keys) {}

  std::int64_t head(const Problem& p, std::int64_t row) const {
    return kv_head * p.group() + row / p.queries;
  }
  Range keys_of(const Problem& p, std::int64_t row) const {
    const std::int64_t i = row % p.queries;
    return sequence.band.seen_by_any({i, i + 1}) & sequence.keys;
  }
};

// The states of a call: of every row and split o [padded Dv], then m and l, in units of log2.
struct States {
  float* memory;
  std::int64_t splits, value_floats;

  explicit States(const Call& call)
      : memory(call.shared()),
        splits(call.plan.splits),
        value_floats(whole_vectors(call.problem.value_dim)) {}

  float* o(std::int64_t row, std::int64_t split) const {
    return memory + (row * splits + split) * (value_floats + N);
  }
  float& m(std::int64_t row, std::int64_t split) const { return o(row, split)[value_floats]; }
  float& l(std::int64_t row, std::int64_t split) const { return o(row, split)[value_floats + 1]; }
  std::int64_t row_stride() const { return splits * (value_floats + N); }
};

// ---- One split ----

// The weights of a block, and what the outputs are multiplied by. They lie in the frame of the
// loop, where the compiler sees that no store to them changes q: it loads q once a block into
// registers, instead of once for every four keys (Zen 4, one core: 21 -> 25 GB/s of float32).
struct Weights {
  HWY_ALIGN float p[kDecodeRows * kDecodeBlock];
  float alpha[kDecodeRows];

  // Outputs are multiplied with the first keys of a block alone.
  HWY_INLINE void keep_outputs() { std::fill_n(alpha, kDecodeRows, 1.f); }
};

// What one worker writes to.
struct DecodeScratch {
  float *q, *row, *k, *v;

  DecodeScratch(const Problem& p, float* memory) {
    const std::int64_t dim = whole_vectors(p.dim), value_dim = whole_vectors(p.value_dim);
    q = memory;                   // [kDecodeRows][padded D]
    row = q + kDecodeRows * dim;  // of double
    k = row + 2 * value_dim;      // [kDecodeBlock][padded D]
    v = k + kDecodeBlock * dim;   // [kDecodeBlock][padded Dv]
  }
};

// Rows of K or V of one key head, a run of keys at a time: dense, cached and paged keys differ in
// nothing else. Rows that the registers cannot read as they lie are copied as T, with zeros up to a
// whole vector, since the type decides the order of the sums; and where a row sees not all of a
// run, its keys are copied as they are, the nearest in place of those that nobody may read.
template <class T> struct Rows {
  const Problem& p;
  const Group& group;
  const Tensor& t;
  bool converted;
  float* copies;  // [kDecodeBlock][padded]
  Run<T> runs[kDecodeBlock / kRunKeys];

  // Keys within one block.
  HWY_INLINE void find(Range keys) {
    for (std::int64_t j = keys.begin / kRunKeys * kRunKeys; j < keys.end; j += kRunKeys) {
      const std::int64_t slot = j % kDecodeBlock;
      const bool whole = keys.contains(Range{j, j + kRunKeys});
      runs[slot / kRunKeys] =
          whole && !converted ? Run<T>{at(j), t.stride[1]} : copied(j, slot, keys);
    }
  }

  // Those from a place of the block on, up to the end of its run.
  HWY_INLINE Run<T> from(std::int64_t place) const {
    return runs[place / kRunKeys].from(place % kRunKeys);
  }

  // Whether the processor cannot foresee where the next row lies.
  bool scattered() const { return !converted && (p.paged() || t.stride[1] != t.shape[3]); }
  // Whether the rows lie one behind the other, as they are read.
  bool packed() const { return !converted && !scattered(); }

  const T* at(std::int64_t j) const {
    const core::KeyPlace place = p.place(group.sequence, group.b, j);
    return reinterpret_cast<const T*>(t.at(place.batch, place.row, group.kv_head));
  }

 private:
  HWY_NOINLINE Run<T> copied(std::int64_t key, std::int64_t slot, Range keys) const {
    const std::int64_t n = t.shape[3], padded = whole_vectors(n);
    T* const to = reinterpret_cast<T*>(copies) + slot * padded;
    for (std::int64_t i = 0; i < kRunKeys; ++i) {
      const T* const from = at(std::clamp(key + i, keys.begin, keys.end - 1));
      T* const row = to + i * padded;
      copy_row(row, from, n);
      std::fill(row + n, row + padded, T{});
    }
    return {to, padded};
  }
  HWY_INLINE void copy_row(float* to, const float* from, std::int64_t n) const {
    load(to, t, const_cast<float*>(from), n);
  }
  template <class Half> HWY_INLINE void copy_row(Half* to, const Half* from, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * t.stride[3]];
  }
};

// The queries of some rows.
template <class T>
HWY_INLINE void load_queries(const Problem& p, const Group& group, Range rows, float* q) {
  const Sequence& s = group.sequence;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    Products<T>::load_query(q, p, p.q.at(s.q_batch, s.q_begin + r % p.queries, group.head(p, r)));
    q += Products<T>::steps(whole_vectors(p.dim));
  }
}

// Hides the places of the block at `key` that are not in `keys`.
HWY_INLINE void hide_outside(Range keys, std::int64_t key, float* s) {
  const auto place = [key](std::int64_t j) {
    return std::clamp<std::int64_t>(j - key, 0, kDecodeBlock);
  };
  std::fill(s, s + place(keys.begin), -kInfinity);
  std::fill(s + place(std::max(keys.begin, keys.end)), s + kDecodeBlock, -kInfinity);
}

// P = 2^(S - m), l = alpha l + sum of P and alpha = 2^(m_old - m) for kRows rows of a block; `m` is
// that of the first, with l behind it. Step by step for all rows: nothing is read meanwhile, and
// one row after the other would wait for each of its own steps.
template <int kRows, class Scores>
HWY_INLINE void absorb_rows(const Scores& scores, float* HWY_RESTRICT s, float* HWY_RESTRICT m,
                            std::int64_t stride, float* HWY_RESTRICT alpha) {
  V old[kRows], next[kRows], base[kRows], sum[kRows];
  for (int r = 0; r < kRows; ++r) next[r] = hn::Load(d, s + r * kDecodeBlock);
  for (std::int64_t j = N; j < kDecodeBlock; j += N)
    for (int r = 0; r < kRows; ++r)
      next[r] = hn::Max(next[r], hn::Load(d, s + r * kDecodeBlock + j));
  for (V& x : next) x = hn::MaxOfLanes(d, x);
  for (int r = 0; r < kRows; ++r) {
    old[r] = hn::Set(d, m[r * stride]);
    next[r] = hn::Max(old[r], scores.in_log2(next[r]));
    // A row that has seen no key keeps m = -inf; measured from 0 its exponents are all -inf.
    base[r] = hn::IfThenElse(hn::Eq(next[r], hn::Set(d, -kInfinity)), hn::Zero(d), next[r]);
    sum[r] = hn::Zero(d);
  }
  for (std::int64_t j = 0; j < kDecodeBlock; j += N)
    for (int r = 0; r < kRows; ++r) {
      const V weight = exp2(scores.above(base[r], hn::Load(d, s + r * kDecodeBlock + j)));
      sum[r] = hn::Add(sum[r], weight);
      hn::Store(weight, d, s + r * kDecodeBlock + j);
    }
  for (int r = 0; r < kRows; ++r) old[r] = exp2(hn::Sub(old[r], base[r]));
  for (V& x : sum) x = hn::SumOfLanes(d, x);
  for (int r = 0; r < kRows; ++r) {
    float* const to = m + r * stride;
    alpha[r] = hn::GetLane(old[r]);
    to[0] = hn::GetLane(next[r]);
    to[1] = alpha[r] * to[1] + hn::GetLane(sum[r]);
  }
}

// Calls f with the number of rows of each tile as a constant, and the first of them.
template <int kRows, class F>
HWY_INLINE void for_rows(std::int64_t first, std::int64_t end, F&& f) {
  for (; first + kRows <= end; first += kRows) f(std::integral_constant<int, kRows>(), first);
  if constexpr (kRows > 1) for_rows<kRows / 2>(first, end, f);
}

// The same for groups of vectors of columns.
template <class F> HWY_INLINE void for_columns(std::int64_t columns, F&& f) {
  std::int64_t c = 0;
  for (; c + kVectorsAtOnce * N <= columns; c += kVectorsAtOnce * N)
    f(std::integral_constant<int, kVectorsAtOnce>(), c);
  for (; c + 2 * N <= columns; c += 2 * N) f(std::integral_constant<int, 2>(), c);
  if (c < columns) f(std::integral_constant<int, 1>(), c);
}

// One task: some rows of a group and one split of its keys.
template <class T, int kSteps> struct Split {
  const Problem& p;
  const Group& group;
  Range rows;              // of the group
  std::int64_t first_row;  // of them, in all the call
  std::int64_t index;      // of the split
  DecodeScratch& w;
  Rows<T> k, v;
  typename Products<T>::Scores scores{p};

  // Whether the loop over a stretch can take it: kVectorsAtOnce vectors of K and of V a key.
  bool usual() const {
    return k.packed() && v.packed() && p.value_dim == kVectorsAtOnce * N &&
           rows.size() % kScoreRows == 0;
  }
  // The whole blocks of some keys, not none, that each row sees; empty and at their end if none is.
  Range stretch(Range keys) const {
    const Range seen = keys & group.common;
    const Range blocks{round_up(seen.begin, kDecodeBlock), seen.end / kDecodeBlock * kDecodeBlock};
    return seen.empty() || blocks.empty() ? Range{keys.end, keys.end} : blocks;
  }

  // S of a tile of rows for some places of a block. In line, as all of the loop: with calls between
  // its parts the rate of reading is a tenth less.
  template <int kRows> HWY_INLINE void score_rows(std::int64_t row, Range places, float* s) {
    const std::int64_t dim = whole_vectors(p.dim);
    const bool ahead = row == 0 && v.scattered();
    for (std::int64_t j = places.begin; j < places.end; j += kKeysAtOnce) {
      if (ahead) v.from(j).prefetch({0, kKeysAtOnce}, p.value_dim * std::int64_t(sizeof(T)));
      score_keys<kRows, kSteps>(k.from(j), w.q + row * Products<T>::steps(dim), dim,
                                s + row * kDecodeBlock + j);
    }
  }

  // S for the keys of one block, hidden where a row does not see them.
  HWY_INLINE void score(Range block, float* s) {
    const std::int64_t key = block.begin / kDecodeBlock * kDecodeBlock;
    const std::int64_t first = (block.begin - key) / kKeysAtOnce * kKeysAtOnce;
    for_rows<kScoreRows>(0, rows.size(), [&](auto tile, std::int64_t r) {
      score_rows<tile.value>(r, {first, block.end - key}, s);
    });
    if (block.size() == kDecodeBlock && group.common.contains(block)) return;
    for (std::int64_t r = 0; r < rows.size(); ++r) {
      const Range seen = group.keys_of(p, rows.begin + r) & block;
      if (seen.size() < kDecodeBlock) hide_outside(seen, key, s + r * kDecodeBlock);
    }
  }

  // O = alpha O + P V for the keys of one block. By now `k` is that of the next one.
  HWY_INLINE void accumulate(const States& states, Range block, Range next, Weights& weights) {
    const Range all{block.begin % kDecodeBlock, block.begin % kDecodeBlock + block.size()};
    const bool ahead = k.scattered() && next.size() == kDecodeBlock;
    for (std::int64_t j = 0; j < all.end; j += kRunKeys) {
      const Range keys = Range{j, j + kRunKeys} & all;
      if (keys.empty()) continue;
      const Run<T> values = v.from(keys.begin);
      for_columns(states.value_floats, [&](auto vectors, std::int64_t c) {
        for_rows<kOutputRows<T>>(0, rows.size(), [&](auto tile, std::int64_t r) {
          accumulate_values<tile.value, vectors.value>(
              OutputRows{states.o(first_row + r, index) + c, states.row_stride(),
                         weights.alpha + r},
              weights.p + r * kDecodeBlock + keys.begin, Run<T>{values.row + c, values.stride},
              keys.size());
        });
      });
      weights.keep_outputs();
      if (ahead) k.from(j).prefetch({0, kRunKeys}, p.dim * std::int64_t(sizeof(T)));
    }
  }
};

// Blocks of any kind.
template <class T, int kSteps>
HWY_NOINLINE inline void absorb_blocks(Split<T, kSteps>& split, const States& states, Range keys) {
  if (keys.empty()) return;
  Weights weights;
  std::int64_t key = keys.begin / kDecodeBlock * kDecodeBlock;
  const auto block_at = [&](std::int64_t first) {
    return Range{first, first + kDecodeBlock} & keys;
  };
  split.k.find(block_at(key));
  for (; key < keys.end; key += kDecodeBlock) {
    const Range block = block_at(key), next = block_at(key + kDecodeBlock);
    split.v.find(block);
    split.score(block, weights.p);
    split.k.find(next);
    for_rows<kScoreRows>(0, split.rows.size(), [&](auto tile, std::int64_t r) {
      absorb_rows<tile.value>(split.scores, weights.p + r * kDecodeBlock,
                              &states.m(split.first_row + r, split.index), states.row_stride(),
                              weights.alpha + r);
    });
    split.accumulate(states, block, next, weights);
  }
}

// The same for whole tiles of rows and whole blocks that each row sees and whose keys lie one
// behind the other: the usual case, in a loop where all that can be known is a constant. Every sum
// has the order of absorb_blocks.
template <class T, int kSteps>
HWY_NOINLINE inline void absorb_stretch(Split<T, kSteps>& split, const States& states, Range keys) {
  constexpr std::int64_t kColumns = kSteps * N;
  const T *k = split.k.at(keys.begin), *v = split.v.at(keys.begin);
  const float* const q = split.w.q;
  const auto scores = split.scores;
  const std::int64_t rows = split.rows.size(), stride = states.row_stride();
  float* const o = states.o(split.first_row, split.index);
  Weights weights;
  for (std::int64_t n = keys.size(); n > 0; n -= kDecodeBlock) {
    for (std::int64_t r = 0; r < rows; r += kScoreRows) {
      for (std::int64_t j = 0; j < kDecodeBlock; j += kKeysAtOnce)
        score_keys<kScoreRows, kSteps>(Run<T>{k + j * kColumns, kColumns},
                                       q + r * Products<T>::steps(kColumns), kColumns,
                                       weights.p + r * kDecodeBlock + j);
      absorb_rows<kScoreRows>(scores, weights.p + r * kDecodeBlock, o + r * stride + kColumns,
                              stride, weights.alpha + r);
    }
    for (std::int64_t j = 0; j < kDecodeBlock; j += kRunKeys) {
      for_rows<kOutputRows<T>>(0, rows, [&](auto tile, std::int64_t r) {
        accumulate_values<tile.value, kSteps>(OutputRows{o + r * stride, stride, weights.alpha + r},
                                              weights.p + r * kDecodeBlock + j,
                                              Run<T>{v + j * kColumns, kColumns}, kRunKeys);
      });
      weights.keep_outputs();
    }
    k += kDecodeBlock * kColumns, v += kDecodeBlock * kColumns;
  }
}

// The state of a split of the keys, for some rows of a group.
template <class T, int kSteps>
HWY_NOINLINE inline void decode_split(Split<T, kSteps>& split, const States& states, Range keys) {
  for (std::int64_t r = 0; r < split.rows.size(); ++r) {
    float* const o = states.o(split.first_row + r, split.index);
    std::fill_n(o, states.value_floats, 0.f);
    o[states.value_floats] = -kInfinity;
    o[states.value_floats + 1] = 0;
  }
  if (keys.empty()) return;
  load_queries<T>(split.p, split.group, split.rows, split.w.q);
  Range stretch{keys.end, keys.end};
  if constexpr (kSteps == kVectorsAtOnce)
    if (split.usual()) stretch = split.stretch(keys);
  absorb_blocks(split, states, {keys.begin, stretch.begin});
  if constexpr (kSteps == kVectorsAtOnce)
    if (!stretch.empty()) absorb_stretch(split, states, stretch);
  absorb_blocks(split, states, {stretch.end, keys.end});
}

// ---- The merge ----

// out = sum of the states of one row over its splits, in the order of the keys; a sink is a state
// of its own, with the value 0.
HWY_NOINLINE inline void merge_row(const Call& call, const States& states, std::int64_t row,
                                   DecodeScratch& w) {
  const Problem& p = call.problem;
  const Head head(p, row / p.queries);
  const std::int64_t i = row % p.queries;
  const Sequence& s = head.sequence;
  const float sink = p.sink.present() ? float(p.sink.load(head.h)) * kLog2E : -kInfinity;
  float m = sink;
  for (std::int64_t n = 0; n < states.splits; ++n) m = std::max(m, states.m(row, n));
  const float base = m == -kInfinity ? 0 : m;
  const auto weight = [base](float x) { return hn::GetLane(exp2(hn::Set(d, x - base))); };
  float l = weight(sink);
  std::fill_n(w.row, states.value_floats, 0.f);
  for (std::int64_t n = 0; n < states.splits; ++n) {
    const float factor = weight(states.m(row, n));
    const float* const o = states.o(row, n);
    l += factor * states.l(row, n);
    for (std::int64_t c = 0; c < states.value_floats; c += N)
      hn::StoreU(hn::MulAdd(hn::Set(d, factor), hn::Load(d, o + c), hn::LoadU(d, w.row + c)), d,
                 w.row + c);
  }
  const float share = l == 0 ? 0.f : 1 / l;
  V zero = hn::Zero(d);  // NaN after an element that is not finite
  for (std::int64_t c = 0; c < states.value_floats; c += N) {
    const V x = hn::Mul(hn::Set(d, share), hn::LoadU(d, w.row + c));
    zero = hn::MulAdd(hn::Zero(d), x, zero);
    hn::StoreU(x, d, w.row + c);
  }
  if (p.v.dtype == DType::kBfloat16) join_by_parity(w.row, states.value_floats);
  store(p.out, p.out.at(s.q_batch, s.q_begin + i, head.h), w.row, p.value_dim);
  const double lse = l == 0 ? -double(kInfinity) : (double(m) + std::log2(double(l))) * kLn2;
  if (p.lse.present()) p.lse.store({s.q_batch, head.h, s.q_begin + i, 0}, lse);
  // As in the tiles: what is not finite, or too far from 0, is computed by the definition.
  const bool sees = !(s.band.seen_by_any({i, i + 1}) & s.keys).empty();
  const bool lost = m == -kInfinity ? sees : is_far(m, l);
  if (lost || !hn::AllTrue(d, hn::Eq(zero, hn::Zero(d))))
    define_row(p, head, i, reinterpret_cast<double*>(w.row));
}

// ---- The phases ----

template <class T, int kSteps>
HWY_INLINE void decode_task(Call& call, std::int64_t task, DecodeScratch& w) {
  const Problem& p = call.problem;
  const States states(call);
  const std::int64_t all = p.group() * p.queries, tiles = divide_up(all, kDecodeRows);
  const std::int64_t index = task % states.splits, tile = task / states.splits % tiles;
  const Group group(p, task / states.splits / tiles);
  const Range rows = Range{tile * kDecodeRows, (tile + 1) * kDecodeRows} & Range{0, all};
  const std::int64_t first = (group.b * p.kv_heads + group.kv_head) * all + rows.begin;
  const bool converted = call.plan.packing != plan::Packing::kNone;
  Split<T, kSteps> split{p,
                         group,
                         rows,
                         first,
                         index,
                         w,
                         {p, group, p.k, converted, w.k, {}},
                         {p, group, p.v, converted, w.v, {}}};
  const std::int64_t key = index * call.plan.split_keys;
  decode_split(split, states, Range{key, key + call.plan.split_keys} & group.visible);
  if (states.splits > 1) return;
  for (std::int64_t r = first; r < first + rows.size(); ++r) merge_row(call, states, r, w);
}

// The usual head dimension as a constant.
constexpr int kUsualSteps = 8;

template <class T> HWY_NOINLINE void decode_as(Call& call, int worker) {
  const Problem& p = call.problem;
  DecodeScratch scratch(p, call.of_worker(worker));
  if (whole_vectors(p.dim) == kUsualSteps * N)
    call.tasks.work(worker, [&](std::int64_t t) { decode_task<T, kUsualSteps>(call, t, scratch); });
  else
    call.tasks.work(worker, [&](std::int64_t t) { decode_task<T, 0>(call, t, scratch); });
}

HWY_NOINLINE inline void decode(Call& call, int worker) {
  const DType keys = call.problem.k.dtype;
  const bool widened = keys == DType::kFloat16 && !kHasFloat16;
  with_type(widened ? DType::kFloat32 : keys, nullptr, [&](auto* element) {
    decode_as<std::remove_pointer_t<decltype(element)>>(call, worker);
  });
}

HWY_NOINLINE inline void decode_merge(Call& call, int worker) {
  DecodeScratch scratch(call.problem, call.of_worker(worker));
  const States states(call);
  call.tasks.work(worker, [&](std::int64_t row) { merge_row(call, states, row, scratch); });
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
