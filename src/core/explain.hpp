// The online softmax of one row, block of keys by block of keys, with every value on the way.
//
// State in float32, as the kernels carry it; beside it the definition in double, in two passes over
// the whole row. The same bits on every machine: exp is ours and no product is contracted.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/band.hpp"
#include "core/dtype.hpp"

namespace tessera::core {

// (m, l, o) of a set of keys, as in state.hpp, in float32.
struct RowState {
  float m = -std::numeric_limits<float>::infinity();
  float l = 0;
  std::vector<float> o = {};

  // o / l; zeros for a row that has seen nothing.
  std::vector<float> normalised() const;
  float lse() const;

  friend bool operator==(const RowState&, const RowState&) = default;
};

// The state of the union of two disjoint sets of keys. The empty state is the identity.
RowState merge(const RowState& a, const RowState& b);

struct RowOptions {
  std::int64_t keys = 8, block = 2, dim = 4;
  std::uint64_t seed = 0;
  DType dtype = DType::kFloat32;   // of q, k, v, and of P where it multiplies v; sums are float32
  std::vector<float> scores = {};  // one for each key; empty: <q, k> / sqrt(dim), generated
  float gain = 1, ramp = 0, shift = 0;  // the score of key j becomes gain s + ramp j + shift
  Band band = {};                       // which keys the row may see, counted from ...
  std::int64_t row = 0;                 // ... this query
  std::vector<Range> hidden = {};       // keys that a mask hides
  std::optional<float> sink = {};  // a logit that joins the denominator: the row starts from it
};

// One block of keys.
struct RowStep {
  Range keys = {};
  bool skipped = false;            // no key of it is visible: nothing is read, nothing computed
  std::vector<float> scores = {};  // -inf where hidden
  std::vector<float> p = {};       // exp(s - m) with the m after this block
  float m_before = 0, m = 0;
  float rescale = 1;  // exp(m_before - m): what l and o are multiplied by
  float l = 0;
  std::vector<float> o = {};           // not normalised
  std::vector<float> normalised = {};  // o / l: attention over the keys seen so far
  double error = 0;                    // max |o / l - exact|

  bool grew() const { return m > m_before; }
};

// The definition: the maximum in a first pass, everything else in a second, in double.
struct ExactRow {
  double m = 0, l = 0, lse = 0;
  std::vector<double> out = {};
};

struct RowTrace {
  RowOptions options = {};
  std::vector<float> q = {}, k = {};  // [dim], [keys, dim]; empty where scores are given
  std::vector<float> v = {};          // [keys, dim]
  std::vector<float> scores = {};     // [keys], -inf where hidden
  RowState start = {};                // empty, or the sink
  std::vector<RowStep> steps = {};
  RowState end = {};
  ExactRow exact = {};
  std::vector<float> naive = {};  // sum exp(s) v / sum exp(s) in float32 without the maximum
};

// Fails with INVALID_ARGUMENT where the options make no sense.
RowTrace explain_row(const RowOptions& options);

// The state of some of the keys alone, all of them in one block, without the sink.
RowState state_of(const RowTrace& trace, Range keys);

// max |o / l - exact|
double error_of(const RowState& state, const RowTrace& trace);

}  // namespace tessera::core
