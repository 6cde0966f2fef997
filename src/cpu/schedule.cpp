#include "cpu/schedule.hpp"

#include <algorithm>

namespace tessera::cpu {
namespace {

using core::Problem;
using core::Range;
using core::Sequence;
using plan::Plan;
using plan::Stretch;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// To begin and end a strip costs about as much as so many of its keys.
constexpr std::int64_t kKeysOfAStrip = 16;

// The work of one task in scores, of which a vector computes all its lanes.
double work_of(const Sequence& s, Range rows, std::int64_t lanes) {
  const Range keys = s.band.seen_by_any(rows) & s.keys;
  const std::int64_t scored = std::max<std::int64_t>(0, keys.size()) + kKeysOfAStrip;
  return double(divide_up(rows.size(), lanes) * lanes) * double(scored);
}

}  // namespace

Schedule::Schedule(const Problem& p, const Plan& plan, Stretch* list)
    : heads_(p.heads),
      rows_(plan.task_queries),
      tasks_(plan.tasks),
      blocks_(divide_up(p.queries, plan.task_queries)),
      listed_(plan.listed),
      list_(list) {
  if (listed_ > 0) fill(p, plan);
}

void Schedule::fill(const Problem& p, const Plan& plan) {
  const std::int64_t lanes = plan.device.lanes;
  for (std::int64_t b = 0; b < listed_; ++b) {
    const Sequence s = p.sequence(b);
    Stretch& of = list_[b] = {b, divide_up(s.queries, rows_), 0, 0, 0};
    for (std::int64_t row = 0; row < s.queries; row += rows_) {
      const double work = work_of(s, Range{row, row + rows_} & Range{0, s.queries}, lanes);
      of.largest = std::max(of.largest, work);
      of.before += work * double(heads_);  // for now its own
    }
  }
  std::sort(list_, list_ + listed_, [](const Stretch& a, const Stretch& b) {
    return a.largest != b.largest ? a.largest > b.largest : a.sequence < b.sequence;
  });
  std::int64_t first = 0;
  for (Stretch* of = list_; of != list_ + listed_; ++of) {
    of->first_task = first;
    first += of->blocks * heads_;
    const double own = of->before;
    of->before = work_;
    work_ += own;
  }
}

template <class Reached> const Stretch& Schedule::last(Reached reached) const {
  return std::partition_point(list_ + 1, list_ + listed_, reached)[-1];
}

Schedule::Task Schedule::task(std::int64_t index) const {
  if (listed_ == 0) {
    const std::int64_t head = index / blocks_;
    return {head / heads_, head % heads_, (blocks_ - 1 - index % blocks_) * rows_};
  }
  const Stretch& of = last([index](const Stretch& s) { return s.first_task <= index; });
  const std::int64_t within = index - of.first_task;
  return {of.sequence, within / of.blocks, (of.blocks - 1 - within % of.blocks) * rows_};
}

std::int64_t Schedule::share(int worker, int workers) const {
  if (listed_ == 0) return tasks_ * worker / workers;
  if (worker == workers) return tasks_;
  const double before = work_ * worker / workers;
  const Stretch& of = last([before](const Stretch& s) { return s.before <= before; });
  const double end = &of + 1 == list_ + listed_ ? work_ : (&of)[1].before;
  const std::int64_t tasks = of.blocks * heads_;
  if (!(end > of.before)) return of.first_task;
  return of.first_task + std::int64_t(double(tasks) * (before - of.before) / (end - of.before));
}

}  // namespace tessera::cpu
