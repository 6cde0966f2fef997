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

}  // namespace

void clear_unused_rows(const Problem& p, const core::Gradients& g) {
  if (g.accumulate) return;
  for (std::int64_t b = 0; b <= p.batch && p.packed_queries(); ++b) clear(g.dq, p.rows_between(b));
  for (std::int64_t b = 0; b <= p.batch && p.packed_keys(); ++b)
    for (const Tensor* t : {&g.dk, &g.dv}) clear(*t, p.keys_between(b));
}

}  // namespace tessera::cpu
