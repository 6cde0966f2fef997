// Which pairs dropout keeps: a function of the pair alone, whatever the tiles. Philox4x32-10 is
// that of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once
#include "device/attention/sequence.cuh"
#include "device/tile/multiply.cuh"
#include "device/tile/parts.cuh"

namespace tessera::device {

struct Philox {
  u32 word[4];

  TS_DEVICE void round(u32 key0, u32 key1) {
    const u64 a = u64(0xD2511F53u) * word[0], b = u64(0xCD9E8D57u) * word[2];
    word[0] = u32(b >> 32) ^ word[1] ^ key0;
    word[1] = u32(b);
    word[2] = u32(a >> 32) ^ word[3] ^ key1;
    word[3] = u32(a);
  }
};

// Pairs of 16 rows and some columns that are kept, as bits, laid out as Sums are: of half h a lane
// has 4 keys of each 8 columns, two of which are its own.
template <int columns> struct KeptPairs {
  static constexpr int kWords = (columns + 63) / 64;
  u32 bits[2][kWords];

  // Its own columns of the eight from 8 n on: bit 0 the even one, bit 1 the odd one.
  TS_DEVICE u32 pair(int half, int n) const {
    return bits[half][n / 8] >> (n % 8 * 4 + isa::lane() % 2 * 2);
  }
};

// Of one head of one sequence.
struct Dropout {
  const DropoutParams& p;
  u32 row;  // batch * heads + head

  TS_DEVICE Dropout(const ForwardParams& all, const Sequence& s, int head)
      : p(all.dropout), row(u32(s.index * all.heads + head)) {}

  // The words of keys 4 group to 4 group + 3.
  TS_DEVICE Philox draw(i64 i, i64 group) const {
    Philox words{{u32(group), u32(i), row, p.offset}};
    u32 key0 = u32(p.seed), key1 = u32(p.seed >> 32);
    TS_UNROLL for (int n = 0; n < 10; ++n) {
      words.round(key0, key1);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    return words;
  }
  // Which of them are kept, as bits.
  TS_DEVICE u32 compare(const Philox& words) const {
    u32 kept = 0;
    TS_UNROLL for (int x = 0; x < 4; ++x) { kept |= u32(words.word[x] >= p.threshold) << x; }
    return kept;
  }
  TS_DEVICE bool keeps(i64 i, i64 j) const { return (compare(draw(i, j / 4)) >> j % 4 & 1) != 0; }

  // Pairs of a warp's 16 rows from `query` on and the keys from `key` on, a multiple of 4. Four
  // keys have one counter, and of these a lane has two in each of its rows: an even lane draws for
  // its row of the first half, its neighbour for that of the second, and they exchange answers.
  template <int columns> TS_DEVICE KeptPairs<columns> kept(i64 query, i64 key) const {
    const int lane = isa::lane();
    const i64 i = query + lane / 4 + lane % 2 * 8;
    KeptPairs<columns> result;
    TS_UNROLL for (int w = 0; w < result.kWords; ++w) {
      u32 mine = 0;
      TS_UNROLL for (int n = 0; n < 8 && 64 * w + 8 * n < columns; ++n) {
        const Philox words = draw(i, key / 4 + 16 * w + 2 * n + lane % 4 / 2);
        mine |= compare(words) << (4 * n);
      }
      const u32 theirs = isa::shuffle_xor(mine, 1);
      result.bits[0][w] = lane % 2 ? theirs : mine;
      result.bits[1][w] = lane % 2 ? mine : theirs;
    }
    return result;
  }
};

// Weights of pairs that are not kept become 0.
template <int columns>
TS_DEVICE void drop(Weights<columns>& weights, const KeptPairs<columns>& kept) {
  TS_UNROLL for (int i = 0; i < weights.size; ++i) {
    const u32 pair = kept.pair(i % 2, i / 2);
    weights[i] &= (pair & 1 ? 0xffffu : 0) | (pair & 2 ? 0xffff0000u : 0);
  }
}

template <int columns> TS_DEVICE void drop(Sums<columns>& weights, const KeptPairs<columns>& kept) {
  TS_UNROLL for (int e = 0; e < weights.size; ++e) {
    if (!(kept.pair(e / 2 % 2, e / 4) >> e % 2 & 1)) weights[e] = 0;
  }
}

template <class T, int columns>
TS_DEVICE void drop(Parts<T, columns>& weights, const KeptPairs<columns>& kept) {
  TS_UNROLL for (int n = 0; n < weights.kCount; ++n) drop(weights.part[n], kept);
}

}  // namespace tessera::device
