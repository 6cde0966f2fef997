// A call whose keys are cut into ranges: a state of each range, and of these the whole by
// tessera_merge. Source: Dao, "FlashAttention-2", 2023, section 3.1.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/tessera/call.hpp"

namespace tessera::tool {

// The ranges of keys of a call, options.splits of them. Those of one sequence differ by one key at
// most; where it has fewer keys than there are ranges, the last ones are empty.
//
// A range says which keys exist, and nothing else: keys keep their places, so masks, biases, slopes
// and dropout are those of the whole call, and its diagonals are named one by one, since a
// bottom-right one would move with the last key. The sink, and the state that a call starts from,
// belong to the first range alone.
class Splits {
 public:
  // Points into `inputs`.
  Splits(const Inputs& inputs, const AttentionOptions& options);

  std::int64_t count() const { return count_; }
  // The call of range n; out and lse are the caller's to set. Points into this object.
  tessera_attention_desc part(std::int64_t n);

 private:
  std::int64_t count_, batch_;
  tessera_attention_desc whole_;
  // Range n of sequence b is from bounds_[n, b] to bounds_[n + 1, b].
  std::vector<std::int64_t> bounds_, diagonals_;
};

// The call, whole or in ranges as the options say. An absent lse is not computed.
void attend(const Context& context, const Inputs& inputs, const AttentionOptions& options,
            const Results& results);

// What tessera_plan_describe says of the call, or of that of the first range.
std::string plan_json(const Context& context, const Inputs& inputs, const AttentionOptions& options,
                      const Results& results);

}  // namespace tessera::tool
