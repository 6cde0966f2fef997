// One row by a whole warp, pair by pair. P V cannot leave a hidden value out: 0 times NaN is NaN.
// So what is not finite of a row is computed again here, where hidden pairs are never multiplied,
// products are summed in double and cannot overflow, and an infinity that is visible stays one.
#pragma once
#include <isa/math.cuh>
#include <isa/thread.cuh>

#include "device/attention/carry.cuh"
#include "device/attention/dropout.cuh"
#include "device/attention/place.cuh"
#include "device/attention/score.cuh"
#include "device/attention/state.cuh"
#include "device/attention/store.cuh"
#include "device/attention/stream.cuh"

namespace tessera::device {

TS_DEVICE float largest_of_warp(float x) {
  TS_UNROLL for (int mask = 16; mask > 0; mask /= 2) x = isa::max(x, isa::shuffle_xor(x, mask));
  return x;
}

TS_DEVICE float sum_of_warp(float x) {
  TS_UNROLL for (int mask = 16; mask > 0; mask /= 2) x += isa::shuffle_xor(x, mask);
  return x;
}

template <class C> struct CarefulRow {
  using T = typename C::T;
  static constexpr int kSums = C::kColumns / 32;
  static constexpr float kHidden = -1;  // in place of a weight: the pair does not count

  const Head& head;
  i64 i;
  int first_column;
  KeyRows<T> k, v;
  const T* query;

  TS_DEVICE CarefulRow(const Head& h, i64 row, int column)
      : head(h),
        i(row),
        first_column(column),
        k(keys_of<T>(h, h.s.keys)),
        v(values_of<T>(h, h.s.keys)),
        query(QueryRows<T>(h).row(row)) {}

  TS_DEVICE Range keys() const { return head.s.keys & head.s.band.seen_by(i); }

  // -inf for a pair that is hidden, whose key is then not read.
  TS_DEVICE float score(i64 j) const {
    if (!keys().contains(j) || !head.sees(i, j)) return -kInfinity;
    if (head.p.score.bias.data && head.bias(i, j) == -kInfinity) return -kInfinity;
    const T* key = k.row(j);
    double sum = 0;
    TS_ROLL for (int d = 0; d < head.p.dim; ++d) {
      const float x = isa::to_float(isa::load(query + d * head.p.q.stride[3]));
      const float y = isa::to_float(isa::load(key + d * k.step()));
      sum = isa::fma(double(x), double(y), sum);
    }
    const auto s = float(head.p.score.scale * sum);
    return head.p.score.adjusts ? head.adjusted(s, i, j) : s;
  }

  // Whether the pair's value counts.
  TS_DEVICE bool keeps(i64 j) const {
    return head.p.dropout.threshold == 0 || Dropout(head.p, head.s, head.head).keeps(i, j);
  }

  // Columns lane, lane + 32 ... from the first one on.
  struct Columns {
    float sum[kSums] = {};
    bool odd[kSums] = {};  // some visible value there is not finite
  };

  // Adds the key j of weight w. An infinity counts however small its weight.
  TS_DEVICE void absorb(Columns& o, float w, i64 j) const {
    const T* value = v.row(j);
    TS_UNROLL for (int c = 0; c < kSums; ++c) {
      const int column = first_column + isa::lane() + 32 * c;
      if (column >= v.columns()) continue;
      const float x = isa::to_float(isa::load(value + column * v.step()));
      o.odd[c] = o.odd[c] || !(isa::abs(x) < kInfinity);
      o.sum[c] += w == 0 && isa::abs(x) == kInfinity ? x : w * x;
    }
  }

  // Adds 32 keys from `first` on, of which each lane knows one weight.
  TS_DEVICE void absorb_some(Columns& o, float mine, i64 first) const {
    TS_ROLL for (int t = 0; t < 32; ++t) {
      const float w = isa::shuffle(mine, t);
      if (w != kHidden) absorb(o, w, first + t);
    }
  }

  // Writes the columns that see a value that is not finite, or `all` of them and lse. Weights are
  // divided before they are summed, so that no sum is larger than the values. The keys pass three
  // times, in one loop: what a score is stands there once, which keeps compilers of a first call
  // quick.
  TS_DEVICE void compute(const Output<T>& out, bool all) const {
    enum Pass { kLargest, kSum, kValues };
    const float factor = head.p.dropout.threshold != 0 ? head.p.dropout.factor : 1.f;
    float from = head.sink(), l = 0;
    Columns o;
    TS_ROLL for (int pass = kLargest; pass <= kValues; ++pass) {
      TS_ROLL for (i64 first = keys().begin; first < keys().end; first += 32) {
        const i64 j = first + isa::lane();  // every lane asks for a key of its own
        const float s = score(j), w = isa::exp2(kLog2e * (s - from));
        if (pass == kLargest) from = isa::max(from, s);
        if (pass == kSum) l += w;
        if (pass == kValues)
          absorb_some(o, s == -kInfinity || !keeps(j) ? kHidden : w / l * factor, first);
      }
      if (pass == kLargest) from = base(largest_of_warp(from));
      if (pass == kSum) l = sum_of_warp(l) + isa::exp2(kLog2e * (head.sink() - from));
    }
    const float nan = 0 * l;  // of a NaN among the scores, also if its weight is dropped; else 0
    const Carried carried(head);
    const float lse = from + isa::log2(l) * kLn2;
    const Shares shares(lse, head.p.state_lse.data ? carried.lse(i) : -kInfinity);
    TS_UNROLL for (int c = 0; c < kSums; ++c) {
      const int column = first_column + isa::lane() + 32 * c;
      if (column < v.columns() && (all || o.odd[c]))
        out.store(i, column, carried.merged(shares, o.sum[c] + nan, i, column));
    }
    if (all && isa::lane() == 0 && first_column == 0) out.store_lse(i, shares.lse);
  }
};

// Rows of a warp from `first` on: all columns of those that are wrong, and of the other odd ones
// those that see a value that is not finite. Out of line, for few calls need it.
template <class C>
TS_OUTLINE void careful_rows(const ForwardParams& p, i64 first, int column, u32 odd, u32 wrong) {
  const Index3 at = place_of_block(p);
  const Sequence s(p, at.z);
  const Head head{p, s, at.y};
  for (int r = 0; r < C::kWarpRows; ++r)
    if ((odd | wrong) >> r & 1 && first + r < s.queries)
      CarefulRow<C>(head, first + r, column).compute({p, s, at.y}, wrong >> r & 1);
}

}  // namespace tessera::device
