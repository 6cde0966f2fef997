// Standard attention with the same micro-kernels, for comparison: three passes over a matrix of
// scores that is stored whole, hidden pairs included. The schedule alone differs from forward-inl.
#if defined(TESSERA_CPU_STANDARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_STANDARD_INL_HPP
#undef TESSERA_CPU_STANDARD_INL_HPP
#else
#define TESSERA_CPU_STANDARD_INL_HPP
#endif

#include "cpu/backward_options-inl.hpp"
#include "cpu/decode-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// The shared memory of a call holds for each strip of each head S [keys][kStrip], then m, l.
inline std::int64_t stored_keys(const Problem& p) {
  return divide_up(p.keys, kBlock) * kBlock + kKeyTile;
}
inline std::int64_t stored_floats(const Problem& p) { return (stored_keys(p) + 2) * kStrip; }

struct StoredStrip {
  Head head;
  float* s;
  float* state;

  // Aims t at strip `index` of the problem.
  StoredStrip(Call& call, Strip& t, std::int64_t index)
      : head(call.problem, index / divide_up(call.problem.queries, kStrip)),
        s(call.shared() + index * stored_floats(call.problem)),
        state(s + stored_keys(call.problem) * kStrip) {
    const std::int64_t row = index % divide_up(call.problem.queries, kStrip) * kStrip;
    aim(t, head, Range{row, row + kStrip} & Range{0, call.problem.queries});
  }
};

template <class F> HWY_INLINE void for_each_strip(Call& call, int worker, F&& f) {
  const Problem& p = call.problem;
  Scratch<> scratch(p, call.plan, call.of_worker(worker));
  call.tasks.work(worker, [&](std::int64_t task) {
    Strip& t = scratch.strips[0];
    const StoredStrip stored(call, t, task);
    for (std::int64_t key = 0; key < p.keys; key += kBlock) {
      const Range block = Range{key, key + kBlock} & stored.head.sequence.keys;
      t.s = stored.s + key * kStrip;
      if (!block.empty()) f.block(p, scratch, stored, block);
    }
    f.end(p, scratch, stored);
  });
}

struct Scores {
  void block(const Problem& p, Scratch<>& w, const StoredStrip& stored, Range keys) {
    Strip& t = w.strips[0];
    const Sequence& s = stored.head.sequence;
    if (keys.begin == s.keys.begin) begin(t, p, stored.head, w.row);
    V top[2];
    score<2>(t, p, s.band, w.packer(p, s, stored.head.kv_head, keys), top);
    Seen seen = w.modifiers.scan(stored.head, t.rows, keys);
    if (seen == Seen::kNone) seen = Seen::kSome;  // no block is skipped here
    if (w.modifiers.needed(seen)) w.modifiers.apply<2>(stored.head, t.rows, keys, seen, t.s);
  }
  void end(const Problem&, Scratch<>&, const StoredStrip&) {}
};

// The usual two passes: the maximum of the whole row, then its exponentials and their sum. A key
// that no row of the strip sees keeps its scores of -inf, by which the last phase knows it.
struct Softmax {
  V top[2];

  void block(const Problem&, Scratch<>& w, const StoredStrip& stored, Range keys) {
    V block_top[2];
    find_top<2>(w.strips[0].s, keys.size(), block_top);
    const bool first = keys.begin == stored.head.sequence.keys.begin;
    for (int half = 0; half < 2; ++half)
      top[half] = first ? block_top[half] : hn::Max(top[half], block_top[half]);
  }
  void end(const Problem& p, Scratch<>& w, const StoredStrip& stored) {
    Strip& t = w.strips[0];
    begin(t, p, stored.head, w.row);
    const Range all = stored.head.sequence.keys;
    float total[kStrip];  // blocks are summed apart, into however many runs they fall
    std::copy_n(t.l, kStrip, total);
    for (std::int64_t key = all.begin / kBlock * kBlock; key < all.end; key += kBlock) {
      const Range block = Range{key, key + kBlock} & all;
      float* const scores = stored.s + key * kStrip;
      Runs runs;
      find_runs<2>(scores, t.rows.size(), block, runs);
      std::fill_n(t.l, kStrip, 0.f);
      for (int i = 0; i < runs.size; ++i) {
        t.s = scores + (runs.run[i].begin - block.begin) * kStrip;
        absorb<2>(t, {0, runs.run[i].size()}, top);
        for (int r = 0; r < kStrip; ++r) total[r] *= t.alpha[r];
      }
      for (int r = 0; r < kStrip; ++r) total[r] += t.l[r];
    }
    std::copy_n(total, kStrip, t.l);
    std::copy_n(t.m, kStrip, stored.state);
    std::copy_n(t.l, kStrip, stored.state + kStrip);
  }
};

struct Values {
  void block(const Problem& p, Scratch<>& w, const StoredStrip& stored, Range keys) {
    Strip& t = w.strips[0];
    const Sequence& s = stored.head.sequence;
    if (keys.begin == s.keys.begin) std::fill_n(t.o, kStrip * padded(p.value_dim), 0.f);
    std::fill_n(t.alpha, kStrip, 1.f);
    Runs runs;
    find_runs<2>(t.s, t.rows.size(), keys, runs);
    const auto kv = w.packer(p, s, stored.head.kv_head, keys);
    for (int i = 0; i < runs.size; ++i) accumulate_keys(t, p, {}, kv, runs.run[i]);
  }
  void end(const Problem& p, Scratch<>& w, const StoredStrip& stored) {
    Strip& t = w.strips[0];
    if (stored.head.sequence.keys.empty()) std::fill_n(t.o, kStrip * padded(p.value_dim), 0.f);
    t.plain = true;
    std::copy_n(stored.state, kStrip, t.m);
    std::copy_n(stored.state + kStrip, kStrip, t.l);
    finish(t, p, stored.head, w.row);
  }
};

HWY_NOINLINE inline void standard_scores(Call& call, int worker) {
  for_each_strip(call, worker, Scores{});
}
HWY_NOINLINE inline void standard_softmax(Call& call, int worker) {
  for_each_strip(call, worker, Softmax{});
}
HWY_NOINLINE inline void standard_values(Call& call, int worker) {
  for_each_strip(call, worker, Values{});
}

// The row of this target in the table of all.
inline Target target(const char* name, bool (*present)()) {
  return {.name = name,
          .lanes = N,
          .present = present,
          .preferred = [] { return true; },
          .bfloat16 = plan::Arithmetic::kFloat32,
          .forward = forward<>,
          .decode = {decode, decode_merge},
          .backward = backward<BackwardFloat32>,
          .reduce_queries = reduce_queries,
          .bias = differentiate_bias,
          .sink = differentiate_sink,
          .standard = {standard_scores, standard_softmax, standard_values}};
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
