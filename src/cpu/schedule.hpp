// Which task computes what, and where the share of each worker begins.
#pragma once
#include <cstdint>

#include "core/problem.hpp"
#include "plan/plan.hpp"

namespace tessera::cpu {

// Head by head, so that keys and values stay near; the last rows, which a causal band makes the
// longest, first, so that the workers end together. Where sequences differ in length their tasks
// are listed: the sequence with the longest task first, and shares of equal work.
class Schedule {
 public:
  // One pass over the lengths fills `list`, which has room for plan.listed stretches.
  Schedule(const core::Problem& p, const plan::Plan& plan, plan::Stretch* list);

  // The rows from `row` on of head h of sequence b.
  struct Task {
    std::int64_t b, h, row;
  };
  // A task that clears nothing.
  Task task(std::int64_t index) const;

  // The first task of the share of a worker, or the number of tasks for worker == workers.
  std::int64_t share(int worker, int workers) const;

 private:
  void fill(const core::Problem& p, const plan::Plan& plan);
  // The last stretch that begins at or before what `reached` asks.
  template <class Reached> const plan::Stretch& last(Reached reached) const;

  std::int64_t heads_, rows_, tasks_;
  std::int64_t blocks_;  // of each head, where nothing is listed
  std::int64_t listed_;
  double work_ = 0;  // of all listed tasks
  plan::Stretch* list_;
};

}  // namespace tessera::cpu
