#include "cpu/unused_rows.hpp"

namespace tessera::cpu {
namespace {

using core::Problem;
using core::Range;
using core::Tensor;

void clear(const Tensor& t, Range rows) {
  if (!t.present() || rows.empty()) return;
  Tensor part = t;
  part.data = t.at(0, rows.begin);
  part.shape[1] = rows.size();
  core::fill(part, 0);
}

// What lies between the used rows of one sequence and those of the next.
template <class Used> void clear_between(const Problem& p, const Tensor& t, Used used) {
  std::int64_t end = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const Range rows = used(p.sequence(b));
    clear(t, {end, rows.begin});
    end = rows.end;
  }
  clear(t, {end, t.shape[1]});
}

}  // namespace

void clear_unused_rows(const Problem& p, const core::Gradients& g) {
  if (g.accumulate) return;
  if (p.packed_queries())
    clear_between(p, g.dq,
                  [](const core::Sequence& s) { return Range{s.q_begin, s.q_begin + s.queries}; });
  if (!p.packed_keys()) return;
  for (const Tensor* t : {&g.dk, &g.dv})
    clear_between(p, *t,
                  [](const core::Sequence& s) { return Range{s.k_begin, s.k_begin + s.keys.end}; });
}

}  // namespace tessera::cpu
