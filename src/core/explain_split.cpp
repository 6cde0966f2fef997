#include "core/explain_split.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "core/explain_math.hpp"

namespace tessera::core {
namespace {

constexpr std::int64_t kMostWorkers = 64;

void check(std::int64_t workers) {
  if (1 <= workers && workers <= kMostWorkers) return;
  fail(Status::kInvalidArgument, "the number of workers is " + std::to_string(workers) +
                                     "; a row is split over 1 to " + std::to_string(kMostWorkers));
}

Range keys_of(const RowTrace& t, std::int64_t worker, std::int64_t workers) {
  const auto blocks = static_cast<std::int64_t>(t.steps.size());
  const std::int64_t first = blocks * worker / workers, last = blocks * (worker + 1) / workers;
  return {std::min(first * t.options.block, t.options.keys),
          std::min(last * t.options.block, t.options.keys)};
}

// The online softmax of a worker: its blocks one after the other.
RowState absorb_blocks(const RowTrace& t, Range keys, RowState state) {
  for (std::int64_t j = keys.begin; j < keys.end; j += t.options.block)
    state = merge(state, state_of(t, {j, std::min(keys.end, j + t.options.block)}));
  return state;
}

// exp(m - both): 1 where both are the maximum of nothing.
float factor(float m, float both) {
  return m == both ? 1 : static_cast<float>(exact_exp(double{m} - double{both}));
}

SplitMerge merge_pair(std::vector<RowState>& states, std::size_t into, std::size_t from) {
  SplitMerge step{.into = into, .from = from};
  const float m_into = states[into].m, m_from = states[from].m;
  states[into] = merge(states[into], states[from]);
  step.rescale_into = factor(m_into, states[into].m);
  step.rescale_from = factor(m_from, states[into].m);
  step.state = states[into];
  return step;
}

void merge_as_tree(SplitTrace& split, std::vector<RowState> states) {
  std::int64_t level = 0;
  for (std::size_t stride = 1; stride < states.size(); stride *= 2, ++level)
    for (std::size_t into = 0; into + stride < states.size(); into += 2 * stride) {
      split.merges.push_back(merge_pair(states, into, into + stride));
      split.merges.back().level = level;
    }
  split.tree = states.front();
}

}  // namespace

SplitTrace split_row(const RowTrace& t, std::int64_t workers) {
  check(workers);
  SplitTrace split;
  const RowState nothing = state_of(t, {});
  std::vector<RowState> states;
  for (std::int64_t w = 0; w < workers; ++w) {
    const Range keys = keys_of(t, w, workers);
    split.parts.push_back({keys, absorb_blocks(t, keys, w == 0 ? t.start : nothing)});
    states.push_back(split.parts.back().state);
  }
  split.chain = nothing;
  for (const RowState& state : states) split.chain = merge(split.chain, state);
  merge_as_tree(split, states);
  split.tree_error = error_of(split.tree, t);
  split.chain_error = error_of(split.chain, t);
  return split;
}

}  // namespace tessera::core
