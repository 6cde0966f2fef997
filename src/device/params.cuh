// What a kernel receives: plain values, written by the host. Strides count elements.
#pragma once
#include "device/types.cuh"

namespace tessera::device {

// [batch, row, head, column] of q, k, v and out; [batch, head, row] of lse; [batch, head, query,
// key] of mask and bias. No data: absent.
struct View {
  void* data = nullptr;
  i64 stride[4] = {0, 0, 0, 0};
};

enum class Type : int { kFloat32, kFloat16, kBfloat16 };

// int32 or int64 in memory.
struct Integers {
  const void* data = nullptr;
  i64 stride[2] = {1, 1};
  bool wide = false;
};

// Key j is visible to query i iff i + offset - left <= j <= i + offset + right.
struct BandParams {
  i64 left, right, offset;
  bool bottom_right;  // the offset is what a sequence has more of keys than of queries
  Integers offsets;   // or one for each sequence
};

// What happens to a score between the product and the softmax. Softmax takes 2^(unit s): `unit` is
// scale times log2(e) where nothing else is done to a score, and log2(e) where `adjusts` says that
// scale, soft cap, ALiBi and bias are applied before. `factor` is the scale as a float.
struct ScoreParams {
  float unit, factor;
  bool adjusts;
  double scale;
  float softcap;  // 0: none
  View alibi, bias, mask, sink;
  Type bias_type;
  bool bias_vectors;  // bias has the type of q, and rows as `q_vectors` says
  bool mask_vectors;  // so has mask
};

// How sequences lie in memory.
struct LengthParams {
  i64 batch, queries, keys;          // of a dense sequence; rows in all, where they are packed
  Integers queries_from, keys_from;  // boundaries of packed sequences
  Integers queries_used, keys_used;  // of each sequence
  Integers key_lengths, key_starts, cache_rows;
  i64 cache_size;  // rows of k and v that cache_rows may name
};

// Pages of keys, if there is a table.
struct PageParams {
  Integers table;
  i64 pages, page_size, pages_of_a_sequence;
};

// A pair is kept iff its word is not below the threshold, and then counts `factor` times. 0 keeps
// all.
struct DropoutParams {
  u32 threshold;
  float factor;
  u64 seed;
  u32 offset;
};

struct ForwardParams {
  View q, k, v, out, lse;
  int heads, group;  // `group` query heads read one key head
  int dim, value_dim;
  bool q_vectors, k_vectors, v_vectors;  // rows are contiguous and 16 bytes apart, or multiples
  bool out_vectors;                      // the same of out, whose rows are whole vectors
  bool out_pairs;                        // the same of out and the size of two elements
  bool out_wide;                         // out is float32 where q is not; no pairs then
  BandParams band;
  ScoreParams score;
  LengthParams lengths;
  PageParams pages;
  DropoutParams dropout;
  View state_out, state_lse;  // float32; strides as those of out and lse
};

}  // namespace tessera::device
