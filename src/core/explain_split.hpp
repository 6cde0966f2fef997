// One row split over workers: each absorbs its own blocks, then their states are merged.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/explain.hpp"

namespace tessera::core {

// What one worker knows of its keys alone. The first one also holds the sink.
struct SplitPart {
  Range keys = {};
  RowState state = {};
};

// Two states that become one, in the place of the first.
struct SplitMerge {
  std::int64_t level = 0;  // merges of one level do not wait for each other
  std::size_t into = 0, from = 0;
  float rescale_into = 1, rescale_from = 1;  // exp(m - m of both)
  RowState state = {};
};

struct SplitTrace {
  std::vector<SplitPart> parts = {};
  std::vector<SplitMerge> merges = {};     // as a binary tree
  RowState tree = {}, chain = {};          // merged as the tree, and one after the other
  double tree_error = 0, chain_error = 0;  // max |o / l - exact|
};

// Whole blocks go to workers, as evenly as they can; some get none if workers outnumber blocks.
// Fails with INVALID_ARGUMENT for fewer than 1 or more than 64 workers.
SplitTrace split_row(const RowTrace& trace, std::int64_t workers);

}  // namespace tessera::core
