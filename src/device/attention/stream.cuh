// Where rows of q, k and v are: dense, packed or in pages, only this file knows.
#pragma once
#include <isa/memory.cuh>

#include "device/attention/score.cuh"
#include "device/attention/sequence.cuh"

namespace tessera::device {

// Rows of one head, counted within the sequence; those outside `rows` are read as zeros.
template <class T> struct QueryRows {
  const ForwardParams& p;
  const Sequence& s;
  int head;

  TS_DEVICE explicit QueryRows(const Head& h) : p(h.p), s(h.s), head(h.head) {}

  TS_DEVICE bool exists(i64 i) const { return i < s.queries; }
  TS_DEVICE i64 step_of_rows() const { return p.q.stride[1]; }
  TS_DEVICE bool vectors() const { return p.q_vectors; }
  TS_DEVICE i64 step() const { return p.q.stride[3]; }
  TS_DEVICE int columns() const { return p.dim; }
  TS_DEVICE const T* row(i64 i) const {
    const i64* stride = p.q.stride;
    return static_cast<const T*>(p.q.data) + s.q_batch * stride[0] + (s.q_begin + i) * stride[1] +
           head * stride[2];
  }
};

// Keys or values of the range that is seen; `head` is that of the keys.
template <class T> struct KeyRows {
  const ForwardParams& p;
  const Sequence& s;
  const View& view;  // p.k or p.v
  int head;
  bool of_vectors;
  int width;
  Range seen;

  TS_DEVICE bool exists(i64 j) const { return seen.contains(j); }
  TS_DEVICE i64 step_of_rows() const { return view.stride[1]; }
  TS_DEVICE bool vectors() const { return of_vectors; }
  TS_DEVICE i64 step() const { return view.stride[3]; }
  TS_DEVICE int columns() const { return width; }
  TS_DEVICE const T* row(i64 j) const {
    if (!p.pages.table.data) return even_row(j);
    const i64 n = j / p.pages.page_size, page = load_integer(p.pages.table, s.index, n);
    // Not j % page_size, which compilers divide for once more, in some 70 instructions.
    return place(within(page, p.pages.pages - 1), j - n * p.pages.page_size);
  }
  // The same where there are no pages.
  TS_DEVICE const T* even_row(i64 j) const { return place(s.k_batch, s.k_begin + j); }
  TS_DEVICE const T* place(i64 batch, i64 at) const {
    return static_cast<const T*>(view.data) + batch * view.stride[0] + at * view.stride[1] +
           head * view.stride[2];
  }
};

template <class T> TS_DEVICE KeyRows<T> keys_of(const Head& h, Range seen) {
  return {h.p, h.s, h.p.k, h.head / h.p.group, h.p.k_vectors, h.p.dim, seen};
}
template <class T> TS_DEVICE KeyRows<T> values_of(const Head& h, Range seen) {
  return {h.p, h.s, h.p.v, h.head / h.p.group, h.p.v_vectors, h.p.value_dim, seen};
}

}  // namespace tessera::device
