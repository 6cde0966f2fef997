// Where the queries and keys of one sequence lie. Lengths come from device memory, so they are
// clamped to what exists.
#pragma once
#include <isa/memory.cuh>

#include "device/attention/band.cuh"
#include "device/params.cuh"

namespace tessera::device {

TS_DEVICE i64 load_integer(const Integers& from, i64 row, i64 column = 0) {
  const i64 at = row * from.stride[0] + column * from.stride[1];
  if (from.wide) return isa::load(static_cast<const i64*>(from.data) + at);
  return isa::load(static_cast<const int*>(from.data) + at);
}

// The nearest of 0 to `most` (0 if that is negative).
TS_DEVICE i64 within(i64 x, i64 most) { return larger(0, smaller(x, most)); }

// The rows of sequence b among `rows` packed ones.
TS_DEVICE Range packed_rows(const Integers& from, i64 b, i64 rows) {
  const i64 begin = within(load_integer(from, b), rows);
  return {begin, larger(begin, within(load_integer(from, b + 1), rows))};
}

struct Sequence {
  i64 q_batch, q_begin;
  i64 slots;    // rows of q and out that are its own
  i64 queries;  // of those
  i64 k_batch, k_begin;
  Range keys;  // those outside do not exist
  Band band;
  i64 index;  // which sequence of the call

  // No sequence: rows counted from the first one in memory.
  TS_DEVICE Sequence()
      : q_batch(0),
        q_begin(0),
        slots(0),
        queries(0),
        k_batch(0),
        k_begin(0),
        keys{0, 0},
        band{0, 0, 0},
        index(0) {}

  TS_DEVICE Sequence(const ForwardParams& p, i64 b)
      : q_batch(b), q_begin(0), k_batch(b), k_begin(0), index(b) {
    find_queries(p.lengths);
    find_keys(p);
    band = {p.band.left, p.band.right, p.band.offset};
    if (p.band.bottom_right) band.offset = keys.end - queries;
    if (p.band.offsets.data) {
      const i64 most = i64(1) << 60, given = load_integer(p.band.offsets, b);
      band.offset = larger(-most, smaller(given, most));
    }
  }

  TS_DEVICE void find_queries(const LengthParams& p) {
    slots = p.queries;
    if (p.queries_from.data) {
      const Range rows = packed_rows(p.queries_from, index, p.queries);
      q_batch = 0;
      q_begin = rows.begin;
      slots = rows.end - rows.begin;
    }
    queries = slots;
    if (p.queries_used.data) queries = within(load_integer(p.queries_used, index), slots);
  }

  TS_DEVICE void find_keys(const ForwardParams& all) {
    const LengthParams& p = all.lengths;
    keys = {0, p.keys};
    if (p.keys_from.data) {
      const Range rows = packed_rows(p.keys_from, index, p.keys);
      k_batch = 0;
      k_begin = rows.begin;
      keys.end = rows.end - rows.begin;
    }
    if (all.pages.table.data)
      keys.end = all.pages.pages == 0 ? 0 : all.pages.pages_of_a_sequence * all.pages.page_size;
    if (p.cache_rows.data) k_batch = within(load_integer(p.cache_rows, index), p.cache_size - 1);
    if (p.keys_used.data) keys.end = within(load_integer(p.keys_used, index), keys.end);
    if (p.key_lengths.data) keys.end = within(load_integer(p.key_lengths, index), keys.end);
    if (p.key_starts.data) keys.begin = within(load_integer(p.key_starts, index), keys.end);
  }
};

// Where rows of q and out that are in no sequence lie: before the first one and after the last.
TS_DEVICE Range rows_before(const LengthParams& p) {
  return {0, p.batch == 0 ? p.queries : packed_rows(p.queries_from, 0, p.queries).begin};
}
TS_DEVICE Range rows_after(const LengthParams& p) {
  return {p.batch == 0 ? p.queries : packed_rows(p.queries_from, p.batch - 1, p.queries).end,
          p.queries};
}

}  // namespace tessera::device
