#include "core/explain.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "core/error.hpp"
#include "core/explain_math.hpp"

namespace tessera::core {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kLargest = std::int64_t{1} << 20;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
float exp32(float x) { return static_cast<float>(exact_exp(double{x})); }

// A row that has seen nothing has m = -inf; measured from 0, its exponents are all -inf.
float base(float m) { return m == kHidden ? 0 : m; }

// The larger; a NaN stays, so that it is never mistaken for "hidden".
float larger(float m, float s) { return s > m || std::isnan(s) ? s : m; }

float rounded_to(DType dtype, float x) {
  if (dtype == DType::kFloat16) return float_from_float16(float16_from_float(x));
  if (dtype == DType::kBfloat16) return float_from_bfloat16(bfloat16_from_float(x));
  return x;
}

// splitmix64 (Steele, Lea and Flood 2014), four draws of 16 bits to a value. Their sum has the
// variance (2^32 - 1) / 3: nearly normal, from integers alone, so the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  float normal() {
    const std::uint64_t x = next();
    double sum = -2. * 65535;
    for (int part = 0; part < 4; ++part) sum += static_cast<double>(x >> 16 * part & 0xffffu);
    return static_cast<float>(sum / std::sqrt(4294967295. / 3));
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  std::uint64_t state_;
};

std::vector<float> generate(Random& random, std::int64_t count, DType dtype) {
  std::vector<float> x(at(count));
  for (float& value : x) value = rounded_to(dtype, random.normal());
  return x;
}

void require_size(const char* name, std::int64_t value, std::int64_t least) {
  if (least <= value && value <= kLargest) return;
  fail(Status::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                     "; the step trace takes " + std::to_string(least) + " to " +
                                     std::to_string(kLargest));
}

void check(const RowOptions& o) {
  require_size("the number of keys", o.keys, 0);
  require_size("the block of keys", o.block, 1);
  require_size("the head dimension", o.dim, 1);
  require_size("keys times head dimension", o.keys * o.dim, 0);
  const bool known =
      o.dtype == DType::kFloat32 || o.dtype == DType::kFloat16 || o.dtype == DType::kBfloat16;
  if (!known)
    fail(Status::kInvalidArgument, "the type is " + std::string(name_of(o.dtype)) +
                                       "; the step trace takes float32, float16 or bfloat16");
  if (!o.scores.empty() && o.scores.size() != at(o.keys))
    fail(Status::kInvalidArgument, std::to_string(o.scores.size()) + " scores are given for " +
                                       std::to_string(o.keys) +
                                       " keys; give one for each key, or none");
}

bool visible(const RowOptions& o, std::int64_t j) {
  const auto hides = [j](Range r) { return r.contains(j); };
  return o.band.sees(o.row, j) && std::none_of(o.hidden.begin(), o.hidden.end(), hides);
}

std::vector<float> scores_of(const RowTrace& t) {
  const RowOptions& o = t.options;
  std::vector<float> scores = o.scores;
  scores.resize(at(o.keys));
  const float scale = 1 / std::sqrt(static_cast<float>(o.dim));
  for (std::int64_t j = 0; j < o.keys; ++j) {
    float& s = scores[at(j)];
    if (o.scores.empty()) {
      for (std::int64_t d = 0; d < o.dim; ++d) s += t.q[at(d)] * t.k[at(j * o.dim + d)];
      s *= scale;
    }
    s = o.gain * s + o.ramp * static_cast<float>(j) + o.shift;
    if (!visible(o, j)) s = kHidden;
  }
  return scores;
}

// Moves sums that were measured from `state.m` to the maximum m; returns the factor.
float rebase(RowState& state, float m) {
  const float factor = exp32(state.m - base(m));
  state.m = m;
  state.l *= factor;
  for (float& x : state.o) x *= factor;
  return factor;
}

// P V of one key: o += p v.
void accumulate(RowState& state, const RowTrace& t, std::int64_t j, float p) {
  const float weight = rounded_to(t.options.dtype, p);
  for (std::size_t d = 0; d < state.o.size(); ++d)
    state.o[d] += weight * t.v[at(j) * state.o.size() + d];
}

RowState empty_state(const RowOptions& o) { return {.o = std::vector<float>(at(o.dim))}; }

double distance(const std::vector<float>& x, const std::vector<double>& exact) {
  double most = 0;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const double error = std::abs(double{x[d]} - exact[d]);
    most = error > most || std::isnan(error) ? error : most;
  }
  return most;
}

// What the block adds to the state: the one step of the online softmax.
void absorb(RowState& state, const RowTrace& t, RowStep& step) {
  float m = state.m;
  for (const float s : step.scores) m = larger(m, s);
  step.rescale = rebase(state, m);
  for (std::int64_t j = step.keys.begin; j < step.keys.end; ++j) {
    const float p = exp32(t.scores[at(j)] - base(m));
    step.p.push_back(p);
    if (t.scores[at(j)] == kHidden) continue;  // selected away, not multiplied by 0
    state.l += p;
    accumulate(state, t, j, p);
  }
}

RowStep take_step(RowState& state, const RowTrace& t, Range keys) {
  RowStep step{.keys = keys, .m_before = state.m};
  step.scores.assign(t.scores.begin() + keys.begin, t.scores.begin() + keys.end);
  step.skipped =
      std::all_of(step.scores.begin(), step.scores.end(), [](float s) { return s == kHidden; });
  if (!step.skipped) absorb(state, t, step);
  step.m = state.m;
  step.l = state.l;
  step.o = state.o;
  step.normalised = state.normalised();
  return step;
}

// scale <q, k_j> in double, or the score that was given; -inf where the key is hidden.
double exact_score(const RowTrace& t, std::int64_t j) {
  const RowOptions& o = t.options;
  if (t.scores[at(j)] == kHidden) return double{kHidden};
  double s = o.scores.empty() ? 0 : double{o.scores[at(j)]};
  for (std::size_t d = 0; d < t.q.size(); ++d)
    s += double{t.q[d]} * double{t.k[at(j) * t.q.size() + d]};
  if (o.scores.empty()) s /= std::sqrt(static_cast<double>(t.q.size()));
  return double{o.gain} * s + double{o.ramp} * static_cast<double>(j) + double{o.shift};
}

ExactRow exact_row(const RowTrace& t) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  ExactRow row{.m = t.options.sink ? double{*t.options.sink} : kNone, .lse = kNone};
  row.out.resize(at(t.options.dim));
  std::vector<double> scores;
  for (std::int64_t j = 0; j < t.options.keys; ++j) {
    const double s = exact_score(t, j);
    row.m = s > row.m || std::isnan(s) ? s : row.m;
    scores.push_back(s);
  }
  if (row.m == kNone) return row;
  if (t.options.sink) row.l = exact_exp(double{*t.options.sink} - row.m);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == kNone) continue;
    const double p = exact_exp(scores[j] - row.m);
    row.l += p;
    for (std::size_t d = 0; d < row.out.size(); ++d)
      row.out[d] += p * double{t.v[j * row.out.size() + d]};
  }
  for (double& x : row.out) x /= row.l;
  row.lse = row.m + exact_log(row.l);
  return row;
}

// exp(s) as it stands: overflows from s = 89 on, and is 0 below -104.
std::vector<float> naive_row(const RowTrace& t) {
  RowState sums = empty_state(t.options);
  if (t.options.sink) sums.l = exp32(*t.options.sink);
  for (std::int64_t j = 0; j < t.options.keys; ++j) {
    if (t.scores[at(j)] == kHidden) continue;
    const float p = exp32(t.scores[at(j)]);
    sums.l += p;
    accumulate(sums, t, j, p);
  }
  const bool sees = t.options.sink || t.end.l != 0;
  for (float& x : sums.o) x = sees ? x / sums.l : 0;
  return sums.o;
}

}  // namespace

std::vector<float> RowState::normalised() const {
  std::vector<float> x = o;
  for (float& value : x) value = l == 0 ? 0 : value / l;
  return x;
}

float RowState::lse() const {
  return l == 0 ? kHidden : static_cast<float>(double{m} + exact_log(double{l}));
}

RowState merge(const RowState& a, const RowState& b) {
  const float m = larger(larger(a.m, b.m), a.m);
  RowState sum = a, other = b;
  rebase(sum, m);
  rebase(other, m);
  sum.l += other.l;
  for (std::size_t d = 0; d < sum.o.size(); ++d) sum.o[d] += other.o[d];
  return sum;
}

RowTrace explain_row(const RowOptions& options) {
  check(options);
  RowTrace t{.options = options};
  Random random(options.seed);
  if (options.scores.empty()) {
    t.q = generate(random, options.dim, options.dtype);
    t.k = generate(random, options.keys * options.dim, options.dtype);
  }
  t.v = generate(random, options.keys * options.dim, options.dtype);
  t.scores = scores_of(t);
  t.start = empty_state(options);
  if (options.sink) {  // a key of value 0
    t.start.m = *options.sink;
    t.start.l = 1;
  }
  t.exact = exact_row(t);
  t.end = t.start;
  for (std::int64_t j = 0; j < options.keys; j += options.block) {
    t.steps.push_back(take_step(t.end, t, {j, std::min(options.keys, j + options.block)}));
    t.steps.back().error = error_of(t.end, t);
  }
  t.naive = naive_row(t);
  return t;
}

RowState state_of(const RowTrace& trace, Range keys) {
  RowState state = empty_state(trace.options);
  const Range present = keys & Range{0, trace.options.keys};
  if (!present.empty()) take_step(state, trace, present);
  return state;
}

double error_of(const RowState& state, const RowTrace& trace) {
  return distance(state.normalised(), trace.exact.out);
}

}  // namespace tessera::core
