// Do strided elements share memory?
#pragma once
#include <cstdint>

#include "core/tensor.hpp"

namespace tessera::api {

// The addresses of the first and the last byte of a tensor that is not empty.
struct Interval {
  std::uintptr_t lowest, highest;

  friend bool apart(const Interval& a, const Interval& b) {
    return a.highest < b.lowest || b.highest < a.lowest;
  }
};

Interval interval_of(const core::Tensor& t);

// Both are exact, except for contrived strides whose exact answer would take a long search: those
// count as overlapping. Every stride must reach less than 2^49 bytes.

// Some two elements of t lie in the same place.
bool overlaps_itself(const core::Tensor& t);

// Some element of a and some element of b share a byte.
bool overlap(const core::Tensor& a, const core::Tensor& b);

}  // namespace tessera::api
